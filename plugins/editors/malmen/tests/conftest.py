from __future__ import annotations

from typing import Any

import pytest

from ke_plugin_malmen import MalmenConfig, RLEditConfig
from ke_plugin_malmen.training import MalmenTrainer
from ke_weights.testing.hypernetwork import HypernetworkKit

SHARED: Any = {
    "modules": ("down:2-3",), "rank": 8, "batch": 2, "locality_length": 12, "lr": 3e-3, "step_init": 1e-2,
}  # fmt: skip
KIT = HypernetworkKit(
    trainer=MalmenTrainer,
    configs={"malmen": MalmenConfig(**SHARED), "rledit": RLEditConfig(**SHARED, length=4, window=2)},
)


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Run torch on one thread."""


@pytest.fixture
def kit() -> HypernetworkKit:
    return KIT
