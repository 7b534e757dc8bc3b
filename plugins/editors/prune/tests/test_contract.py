from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestPrune(UpdateWrapperContract):
    name = "prune"
    options = {"bound": "0.05", "base": "1e30"}  # noqa: RUF012  a contract's setting
    neutral = {"bound": "1e30"}  # noqa: RUF012  a contract's setting
