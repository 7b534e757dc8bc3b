"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from ke_benchmarks import ReproductionSpec

if TYPE_CHECKING:
    from ke_plugin_reproduce.launcher import LauncherSpec

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_reproductions() -> Iterable[ReproductionSpec]:
    """Register published tables and figures for ``ke reproduce FAMILY/NAME``.

    Implement it with ``@hookimpl(optionalhook=True)``: this plugin may not be installed.

    :return: one spec per table; ``ke_benchmarks.reproductions_in`` makes them from the TOML files of a package.
    """
    return ()


@hookspec
def ke_launchers() -> Iterable[LauncherSpec]:
    """Register launchers for ``ke sweep --launcher NAME`` and ``ke reproduce --launcher NAME``.

    Implement it with ``@hookimpl(optionalhook=True)``: this plugin may not be installed.

    :return: one ``ke_plugin_reproduce.launcher.LauncherSpec`` per launcher.
    """
    return ()
