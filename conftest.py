"""Fixtures and tiers of every test in this repository, the plugins' tests included."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

NEXT_TO_CHECKOUT = Path(__file__).resolve().parents[1] / "shared/data"
UNIT_FAMILIES = ("gpt2", "llama")
"""Families of decoders of the unit tests: learned and rotary positions, Conv1D and Linear, LayerNorm and RMSNorm."""
CONTRACT = {"family": UNIT_FAMILIES[:1], "dtype": ("float32",)}
"""Parameters of contract tests in the unit tier: every weight editor runs them, so other values are ``families``."""
SLOW_CONTRACTS = (
    "test_ctrl_c_stops_the_edit_and_leaves_the_model_unchanged",
    "test_a_failed_forward_pass_leaves_the_model_unchanged",
    "test_another_process_gives_the_same_answers",
    "test_registration_does_not_import_torch_transformers_or_numpy",
    "test_registration_prints_nothing",
    "test_unusual_edit_is_rejected_or_applied",
)
"""Contract tests that edit dozens of times, at one moment of failure after another, or start a process."""
CONTRACT_EXAMPLES = ("memit", "ft", "grace", "mello", "none")
"""One editor of each kind: the contract of the others is ``integration``."""
VARIANTS = (
    *("alphaedit", "anyedit", "emmet", "nse", "pmet", "qlora", "r-rome", "unke"),
    *("encore", "key-history", "nas", "prune", "rect", "revive"),
)
"""Editors and wrappers that share nearly all code with others: one family and dtype is tested in the unit tier."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of further decoder families into the tier ``families``.

    Slow contract tests, contracts of most editors and tests on published files go into ``integration``.
    """
    for item in items:
        kind, editor = item.path.parts[-4:-2]
        contract = item.path.name == "test_contract.py"
        once = contract or (kind == "editors" and editor in VARIANTS)
        unit = CONTRACT if once else {"family": UNIT_FAMILIES}
        call = getattr(item, "callspec", None)
        if call is not None and any(call.params.get(name, fast[0]) not in fast for name, fast in unit.items()):
            item.add_marker("families")
        elif (
            getattr(item, "originalname", "") in SLOW_CONTRACTS
            or "ke_data_dir" in getattr(item, "fixturenames", ())
            or (contract and kind == "editors" and editor not in CONTRACT_EXAMPLES)
        ):
            item.add_marker("integration")


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection: some tests collect garbage dozens of times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def ke_data_dir() -> Path:
    """``KE_DATA_DIR``, as the test kit has it; without that, a folder of published files next to the checkout."""
    folder = Path(os.environ.get("KE_DATA_DIR") or NEXT_TO_CHECKOUT)
    if not folder.is_dir():
        pytest.skip("set KE_DATA_DIR to a folder with the published files (mquake/MQuAKE-CF-3k.json, ...)")
    return folder


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: a job in the background inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model of another test keeps anything that could be given up when memory runs out."""
    monkeypatch.setattr("ke_plugin_hf.decoding.memory.KEEPERS", set())


@pytest.fixture(scope="session")
def fakes() -> ModuleType:
    """A benchmark, editors and a model for runs: the module ``core/tests/run/fakes.py``, which is in no package."""
    file = Path(__file__).parent / "core/tests/run/fakes.py"
    spec = importlib.util.spec_from_file_location("ke_core_run_fakes", file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module
