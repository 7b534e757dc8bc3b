"""pytest fixtures for plugin authors, loaded by pytest itself wherever ke-core is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ke_core.plugin import Session

# what their asserts compare is printed when they fail, as in any test
pytest.register_assert_rewrite(
    *(f"ke_testing.{name}" for name in ("contract", "dataset", "editor", "judge", "kit", "metric", "pitfalls")),
    "ke_weights.testing",
)


@pytest.fixture(scope="session")
def ke_data_dir() -> Path:
    """The folder with published data files, ``KE_DATA_DIR``; skips where there is none."""
    folder = os.environ.get("KE_DATA_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set KE_DATA_DIR to a folder with the published files (mquake/MQuAKE-CF-3k.json, ...)")
    return Path(folder)


@pytest.fixture
def ke_cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def ke_session(tmp_path: Path) -> Callable[..., Session[Any]]:
    """``ke_session(model)``: a session around a fake, or a tiny decoder, with artifacts in a folder of this test's own.

    What else it takes is said by ``ke_testing.fakes.make_session``.
    """
    from functools import partial

    from ke_testing.fakes import make_session

    return partial(make_session, root=tmp_path / "artifacts")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for torch: tiny models are faster so, and sums come in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
