"""Find plugins, load each on its own, and remember which ones are broken.

pluggy's own loader stops at the first broken plugin and silently skips a second one of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import pluggy
from attrs import define, field, frozen

from ke_core import hookspecs
from ke_core.errors import PluginConflict

GROUP = "ke"
DISABLE = "KE_DISABLE_PLUGINS"


@frozen(kw_only=True)
class Installed:
    """One entry point: its name, the distribution that brings it, and why it is broken (if it is)."""

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    broken: str = ""


@define
class Plugins:
    """A pluggy manager plus what was found. Build one per process or per test; there is no global."""

    manager: pluggy.PluginManager
    installed: dict[str, Installed] = field(factory=dict)

    @property
    def broken(self) -> dict[str, Installed]:
        """The plugins that could not be loaded, by name."""
        return {name: plugin for name, plugin in self.installed.items() if plugin.broken}

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin object by hand (tests)."""
        self.manager.register(plugin, name=name)
        self.manager.check_pending()
        self.installed[name] = Installed(name=name, module=getattr(plugin, "__name__", type(plugin).__name__))

    def mark_broken(self, name: str, error: BaseException) -> None:
        """Take a plugin out and remember why, in one line."""
        if self.manager.has_plugin(name):
            self.manager.unregister(name=name)
        old = self.installed[name]
        self.installed[name] = Installed(
            name=name, module=old.module, distribution=old.distribution, version=old.version, broken=reason(error)
        )


def reason(error: BaseException) -> str:
    """An exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def bare() -> Plugins:
    """A manager with the hook specifications and no plugin."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return Plugins(manager)


def disabled_by_environment() -> frozenset[str]:
    """Names in ``KE_DISABLE_PLUGINS``, separated by commas."""
    return frozenset(name.strip() for name in os.environ.get(DISABLE, "").split(",") if name.strip())


def discover(found: Iterable[EntryPoint] | None = None, *, disabled: frozenset[str] | None = None) -> Plugins:
    """Load every installed plugin. A broken one is kept with its reason; a clash of names is an error."""
    plugins = bare()
    skip = disabled_by_environment() if disabled is None else disabled
    for point in entry_points(group=GROUP) if found is None else found:
        if point.name in skip:
            continue
        other = plugins.installed.get(point.name)
        if other is not None:
            if other.module == point.value:
                continue  # one distribution on the path twice, as an editable install and a copy
            raise PluginConflict(
                f"two installed plugins are called {point.name!r}: {other.module} and {point.value}",
                hint=f"uninstall one, or skip both with {DISABLE}={point.name}",
            )
        _load(plugins, point)
    return plugins


def _load(plugins: Plugins, point: EntryPoint) -> None:
    dist = point.dist
    plugins.installed[point.name] = Installed(
        name=point.name,
        module=point.value,
        distribution=dist.name if dist else point.name,
        version=dist.version if dist else "",
    )
    try:
        plugins.manager.register(point.load(), name=point.name)
        plugins.manager.check_pending()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin may fail in any way; the others must still work
        plugins.mark_broken(point.name, error)
