from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestRect(UpdateWrapperContract):
    name = "rect"
    options = {"keep": "0.4"}  # noqa: RUF012  a contract's setting
    neutral = {"keep": "1"}  # noqa: RUF012  a contract's setting
