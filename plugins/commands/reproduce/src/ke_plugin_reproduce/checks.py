"""Checks of ``ke plugins check`` for the tables of a plugin."""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.app import Plugins, one_line_reason
from ke_plugin_reproduce.reading import HINT, read, tables
from ke_testing.checks import CheckResult


def table_checks(plugin: str, plugins: Plugins) -> Iterator[CheckResult]:
    """Check that each table of ``plugin`` can be read."""
    for spec in tables(plugins).by_plugin.get(plugin, ()):
        check = f"{spec.name} can be read"
        try:
            read(spec.text(), where=spec.name)
        except Exception as error:  # noqa: BLE001  a plugin may fail in any way
            yield CheckResult(
                check=check, outcome="failed", found=one_line_reason(error), do=getattr(error, "hint", "") or HINT
            )
        else:
            yield CheckResult(check=check)
