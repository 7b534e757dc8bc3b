"""What every command is given: the plugins, and what they offer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

from ke_core.errors import PluginConflict
from ke_core.plugins.manager import Plugins

if TYPE_CHECKING:
    from ke_core.plugins.catalog import Catalog


class App:
    """One process of ``ke``; commands receive it through ``click.pass_obj``."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self._owners: dict[str, str] = {}  # command -> plugin

    @cached_property
    def catalog(self) -> Catalog:
        """Every component; read when a command first asks, because ``ke --help`` does not need it."""
        from ke_core.plugins.catalog import read  # noqa: PLC0415  the specs import the whole data model

        return read(self.plugins)

    def add_commands(self, root: click.Group) -> None:
        """Add the commands of every plugin, the core's among them.

        Each plugin fills a group of its own, so that one that fails half-way leaves nothing behind, and two
        that claim one name are noticed. Raises PluginConflict.
        """
        for impl in self.plugins.manager.hook.ke_commands.get_hookimpls():
            own = click.Group("ke")
            try:
                with self.plugins.listening(impl.plugin_name):
                    impl.function(own)
            except Exception as error:  # noqa: BLE001  a plugin may fail in any way; the others must still work
                self.plugins.mark_broken(impl.plugin_name, error)
                continue
            for name, command in own.commands.items():
                if name in self._owners:
                    raise PluginConflict(
                        f"command {name!r} is offered by {self._owners[name]} and by {impl.plugin_name}",
                        hint="uninstall one, or skip one with KE_DISABLE_PLUGINS",
                    )
                self._owners[name] = impl.plugin_name
                root.add_command(command)

    def commands_of(self, plugin: str) -> list[str]:
        """The commands that one plugin brought."""
        return sorted(name for name, owner in self._owners.items() if owner == plugin)
