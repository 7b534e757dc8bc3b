"""Read the file after ``--suite``, in any format that an installed plugin reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ke_core.app import Plugins
from ke_weights.verify import Check, read_suite


def open_suite(path: Path, plugins: Plugins) -> tuple[Check, ...]:
    """Return the checks of a suite: those of the first ``ke_read_suite`` that reads it, or of ``read_suite``."""
    found: Sequence[Check] | None = plugins.manager.hook.ke_read_suite(path=path)
    return read_suite(path) if found is None else tuple(found)
