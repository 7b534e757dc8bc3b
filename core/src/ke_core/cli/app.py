"""The state of one ``ke`` process: the plugins and the catalog of components."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

from ke_core.cli.lazy import LazyCommand, set_up
from ke_core.plugins.faults import name_conflict
from ke_core.plugins.manager import Plugins
from ke_core.spec.errors import PluginBroken

if TYPE_CHECKING:
    from ke_core.plugins.catalog import Catalog
    from ke_core.spec.hookspecs import ReportFormat


class App:
    """One process of ``ke``; commands receive it through ``click.pass_obj``. ``quiet``: no notes, no progress."""

    def __init__(self, plugins: Plugins, *, quiet: bool = False) -> None:
        self.plugins = plugins
        self.quiet = quiet
        self._owners: dict[str, str] = {}  # command -> plugin

    @cached_property
    def catalog(self) -> Catalog:
        """Every component; read when it is first used, because ``ke --help`` does not need it."""
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

        A name of two words, such as ``plugins check``, adds a subcommand to a command, if that is there. Each plugin
        fills a separate group, so that a plugin that fails, or uses a name that is taken, adds nothing.
        """
        found: dict[str, click.Command] = {}
        for impl in self.plugins.implementations("ke_commands"):
            own = click.Group("ke")
            with self.plugins.running(impl.plugin_name):
                impl.function(own)
                self._check(own, impl.plugin_name)
            if impl.plugin_name not in self.plugins.broken:
                self._owners |= dict.fromkeys(own.commands, impl.plugin_name)
                found |= own.commands
        for name, command in sorted(found.items(), key=lambda one: one[0].count(" ")):  # commands before subcommands
            set_up(command)
            parent, _, child = name.rpartition(" ")
            group = root.commands.get(parent)
            if isinstance(group, LazyCommand):
                group.extra[child] = command
            elif isinstance(group, click.Group):
                group.commands.setdefault(child, command)
            elif not parent:
                root.add_command(command, name)

    def _check(self, own: click.Group, plugin: str) -> None:
        """Raise PluginBroken for an object that is not a command, PluginConflict for a name that is taken."""
        for name, command in own.commands.items():
            if not isinstance(command, click.Command):
                raise PluginBroken(
                    f"ke_commands added {command!r} as {name!r}, which is not a click command",
                    hint="decorate the function with @click.command() or @click.group()",
                )
            if name in self._owners:
                raise name_conflict(f"command {name!r}", self._owners[name], plugin)

    def commands_of(self, plugin: str) -> list[str]:
        """Return the commands of one plugin."""
        return sorted(name for name, owner in self._owners.items() if owner == plugin)
