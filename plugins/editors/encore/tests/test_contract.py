from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestEncore(UpdateWrapperContract):
    name = "encore"
    options = {"norm": "5", "hits": "1"}  # noqa: RUF012  a contract's setting
    neutral = {"norm": "0", "hits": "0"}  # noqa: RUF012  a contract's setting
