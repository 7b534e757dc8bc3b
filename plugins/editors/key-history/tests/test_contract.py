from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestKeyHistory(UpdateWrapperContract):
    name = "key-history"
    options = {"weight": "1"}  # noqa: RUF012  a contract's setting
    neutral = {"weight": "0"}  # noqa: RUF012  a contract's setting
