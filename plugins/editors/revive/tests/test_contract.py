from __future__ import annotations

from ke_weights.testing.wrapping import UpdateWrapperContract


class TestRevive(UpdateWrapperContract):
    name = "revive"
    options = {"energy": "0.5"}  # noqa: RUF012  a contract's setting
    neutral = {"energy": "0"}  # noqa: RUF012  a contract's setting
