from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_mend import MendConfig
from ke_plugin_mend.training import MendTrainer
from ke_weights.testing.hypernetwork import HypernetworkKit

CONFIG = MendConfig(rank=8, batch=2, locality_length=12, lr=3e-3, step_lr=1e-3)
KIT = HypernetworkKit(trainer=lambda _name, config: MendTrainer(config), configs={"mend": CONFIG})


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Run torch on one thread."""


@pytest.fixture
def trained(tmp_path: Path) -> Callable[..., Any]:
    """Return a function: a tiny model with a network trained for it in the cache under ``tmp_path``."""
    return partial(KIT.trained, "mend", tmp_path)


@pytest.fixture
def kit() -> HypernetworkKit:
    return KIT
