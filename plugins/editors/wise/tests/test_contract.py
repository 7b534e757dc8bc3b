from __future__ import annotations

from typing import ClassVar

from ke_weights.testing.adaptor import AdaptorContract

OPTIONS = {"steps": "3", "lr": "5", "alpha": "1", "beta": "4", "gamma": "2", "contexts": "0"}


class TestWise(AdaptorContract):
    name = "wise"
    options: ClassVar = OPTIONS
