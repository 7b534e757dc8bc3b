"""The hook of this toolkit."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from ke_weights.wrappers import UpdateWrapperSpec

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_update_wrappers() -> Iterable[UpdateWrapperSpec]:
    """Provide update wrappers of locate-and-edit editors, selected with ``--editor memit+NAME``.

    Implement it with ``@hookimpl(optionalhook=True)``: ke-weights may not be installed.

    :return: one spec per wrapper.
    """
    return ()
