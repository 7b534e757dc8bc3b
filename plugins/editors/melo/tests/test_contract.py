from __future__ import annotations

from ke_weights.testing.adaptor import AdaptorContract


class TestMelo(AdaptorContract):
    name = "melo"
    options = {"steps": "3"}  # noqa: RUF012  a contract's setting
