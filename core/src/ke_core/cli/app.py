"""The state of one ``ke`` process: the plugins and the catalog of components."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

from ke_core.cli.lazy import LazyCommand, once
from ke_core.plugins.faults import name_conflict
from ke_core.plugins.manager import Plugins
from ke_core.spec.errors import PluginBroken

if TYPE_CHECKING:
    from ke_core.plugins.catalog import Catalog
    from ke_core.spec.hookspecs import ReportFormat


class App:
    """One process of ``ke``; commands receive it through ``click.pass_obj``."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self._owners: dict[str, str] = {}  # command -> plugin

    @cached_property
    def catalog(self) -> Catalog:
        """Every component; read when a command first asks, because ``ke --help`` does not need it."""
        from ke_core.plugins.catalog import read_catalog  # noqa: PLC0415  the specs import the whole data model

        return read_catalog(self.plugins)

    @cached_property
    def report_formats(self) -> dict[str, ReportFormat]:
        """The file formats of ``ke report`` by name; on a name clash the first one wins."""
        from ke_core.plugins.catalog import registered_specs  # noqa: PLC0415  as above
        from ke_core.spec.hookspecs import ReportFormat  # noqa: PLC0415  as above

        found: dict[str, ReportFormat] = {}
        for _plugin, formats in registered_specs(self.plugins, "ke_report_formats", ReportFormat):
            for one in formats:
                found.setdefault(one.name, one)
        return found

    def add_commands(self, root: click.Group) -> None:
        """Add the commands of every plugin, the core's first.

        A name of two words, such as ``plugins check``, adds to a command of the core. Each plugin fills a group of its
        own, so that one that fails half-way, or claims a name that is taken, leaves nothing behind.
        """
        for impl in self.plugins.implementations("ke_commands"):
            own = click.Group("ke")
            with self.plugins.running(impl.plugin_name):
                impl.function(own)
                self._look_at(own, impl.plugin_name)
            if impl.plugin_name in self.plugins.broken:
                continue
            for name, command in own.commands.items():
                self._owners[name] = impl.plugin_name
                once(command)
                parent, _, child = name.rpartition(" ")
                if parent:
                    self._parent(root, parent).extra[child] = command
                else:
                    root.add_command(command, name)

    def _look_at(self, own: click.Group, plugin: str) -> None:
        """Raises PluginBroken for what is no command, PluginConflict for a name that is taken."""
        for name, command in own.commands.items():
            if not isinstance(command, click.Command):
                raise PluginBroken(
                    f"ke_commands added {command!r} as {name!r}, which is no click command",
                    hint="add what @click.command() or @click.group() makes of a function",
                )
            if name in self._owners:
                raise name_conflict(f"command {name!r}", self._owners[name], plugin)

    def _parent(self, root: click.Group, name: str) -> LazyCommand:
        """The core's command that a plugin's ``PARENT CHILD`` is added to."""
        parent = root.commands[name]
        assert isinstance(parent, LazyCommand), f"{name} takes no further commands"
        return parent

    def commands_of(self, plugin: str) -> list[str]:
        """The commands that one plugin brought."""
        return sorted(name for name, owner in self._owners.items() if owner == plugin)
