"""pytest fixtures for plugin authors, loaded automatically if ke-testing is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ke_core.plugin import Session

# a failing assert prints the compared values, as in any test
pytest.register_assert_rewrite(
    *(f"ke_testing.{name}" for name in ("contract", "dataset", "editor", "judge", "kit", "metric", "pitfalls")),
    "ke_weights.testing",
)


@pytest.fixture(scope="session")
def ke_data_dir() -> Path:
    """The folder with published data files, ``KE_DATA_DIR``. Skips the test if it is not set."""
    folder = os.environ.get("KE_DATA_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set KE_DATA_DIR to a folder with the published files (mquake/MQuAKE-CF-3k.json, ...)")
    return Path(folder)


@pytest.fixture
def ke_cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def ke_no_data(ke_cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no other folder of data: the published files on this machine are hidden."""
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    return ke_cache_dir


@pytest.fixture
def ke_session(tmp_path: Path) -> Callable[..., Session[Any]]:
    """``ke_session(model)``: a session with a fake or a tiny decoder, and artifacts in a folder of this test.

    For other arguments see ``ke_testing.fakes.make_session``.
    """
    from functools import partial

    from ke_testing.fakes import make_session

    return partial(make_session, root=tmp_path / "artifacts")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: faster for tiny models, and sums have a fixed order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
