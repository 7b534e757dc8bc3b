"""The hooks of this toolkit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

from ke_weights.wrappers import UpdateWrapperSpec

if TYPE_CHECKING:
    from ke_weights.suites import Check

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_update_wrappers() -> Iterable[UpdateWrapperSpec]:
    """Provide update wrappers of locate-and-edit editors, selected with ``--editor memit+NAME``.

    Implement it with ``@hookimpl(optionalhook=True)``: ke-weights may not be installed.

    :return: one spec per wrapper.
    """
    return ()


@hookspec(firstresult=True)
def ke_read_suite(path: Path) -> Sequence[Check] | None:
    """Read a suite of ``ke verify`` that is neither JSON lines nor CSV. The first answer counts.

    Implement it with ``@hookimpl(optionalhook=True)``, as above.

    :param path: the file after ``--suite``.
    :return: the checks, or None for a file of another format.
    """
    return None
