from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestNas(UpdateWrapperContract):
    name = "nas"
    options = {"anchor": "15"}  # noqa: RUF012  a contract's setting
    neutral = {"anchor": "0"}  # noqa: RUF012  a contract's setting
