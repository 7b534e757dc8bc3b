"""The hook declared by the testing toolkit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from ke_core.app import Plugins
    from ke_testing.checks import CheckResult

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_checks(plugin: str, plugins: Plugins) -> Iterable[CheckResult]:
    """Check what ``plugin`` registers with hooks that the core does not know, for ``ke plugins check``.

    Implement it with ``@hookimpl(optionalhook=True)``: this toolkit may not be installed.

    :param plugin: the entry-point name of the plugin to check.
    :param plugins: every installed plugin.
    :return: one result per check.
    """
    return ()
