"""Find plugins, load each separately, and remember which ones are broken.

pluggy's own loader stops at the first broken plugin and silently skips a second one of the same name.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import EntryPoint, entry_points
from time import monotonic
from typing import Any

import pluggy
from attrs import define, evolve, field, frozen
from pluggy import HookImpl

from ke_core.plugins.directory import directory_entries
from ke_core.plugins.faults import CORE_DISTRIBUTION, must_fit, one_line_reason, raised_at, step
from ke_core.plugins.watch import TIMEOUT, OutOfTime, time_limit, timeout
from ke_core.spec import hookspecs
from ke_core.spec.errors import PluginBroken, PluginConflict

GROUP = "ke"
DISABLE = "KE_DISABLE_PLUGINS"


@frozen(kw_only=True)
class Installed:
    """One entry point: its name, its distribution, and the reason if it is broken.

    ``step``: what its author does about the reason. ``place``: the line of code that failed. ``printed``: what it wrote
    to standard output while it was loaded. ``requires``: the requirements of its distribution. ``seconds``: how long
    its import and its hooks took.
    """

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    broken: str = ""
    step: str = ""
    place: str = ""
    printed: str = ""
    requires: tuple[str, ...] = ()
    seconds: float = 0.0


@define
class Plugins:
    """A pluggy manager and the plugins that were found. There is no global instance."""

    manager: pluggy.PluginManager
    installed: dict[str, Installed] = field(factory=dict)

    @property
    def broken(self) -> dict[str, Installed]:
        """The plugins that could not be loaded, by name."""
        return {name: plugin for name, plugin in self.installed.items() if plugin.broken}

    def implementations(self, hook: str) -> list[HookImpl]:
        """Return the implementations of ``hook``: the core's, those of listed plugins, then the others.

        On a name clash, the plugin listed in the directory wins.
        """
        listed = {entry.distribution for entry in directory_entries()}

        def rank(impl: HookImpl) -> tuple[bool, bool]:
            return impl.plugin_name != CORE_DISTRIBUTION, self.installed[impl.plugin_name].distribution not in listed

        return sorted(getattr(self.manager.hook, hook).get_hookimpls(), key=rank)

    def register(self, plugin: object, name: str) -> None:
        """Register a plugin object that is not installed."""
        self.add(plugin, name)
        self.installed[name] = Installed(name=name, module=getattr(plugin, "__name__", type(plugin).__name__))

    def add(self, plugin: object, name: str) -> None:
        """Register a plugin and the hooks that it declares. Raises PluginValidationError for an unknown hook."""
        self.manager.register(plugin, name=name)
        for impl in self.manager.hook.ke_hookspecs.get_hookimpls():
            if impl.plugin_name == name:
                declared: Any = impl.function()
                for specs in declared:
                    self.manager.add_hookspecs(specs)
        self.manager.check_pending()

    def other_hooks(self, name: str) -> list[str]:
        """The hooks that plugin implements and the core does not call itself, sorted."""
        callers = self.manager.get_hookcallers(self.manager.get_plugin(name)) or []
        return sorted(caller.name for caller in callers if not hasattr(hookspecs, caller.name))

    def mark_broken(self, name: str, error: BaseException, *, at: BaseException | None = None) -> None:
        """Unregister a plugin and keep the reason in one line. ``at``: the exception with the traceback."""
        if self.manager.has_plugin(name):
            self.manager.unregister(name=name)
        old, place = self.installed[name], raised_at(at or error)
        self.installed[name] = evolve(old, broken=one_line_reason(error), step=step(error, old.module), place=place)

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Run code of a plugin: an exception of any kind, or a timeout, breaks this plugin only.

        What it prints goes to standard error. Raises KeyboardInterrupt for Ctrl-C, with a note that names the plugin,
        and BadConfig for a wrong timeout.
        """
        limit, started, printed = 0.0 if name == CORE_DISTRIBUTION else timeout(), monotonic(), io.StringIO()
        try:
            with time_limit(limit), redirect_stdout(printed):
                yield
        except OutOfTime as error:
            late = f"it did not return within {limit:g} s ({_left_out(name)}, {TIMEOUT}=SECONDS sets another limit)"
            hint = "move slow work out of the module and its hooks"
            self.mark_broken(name, PluginBroken(late, hint=hint), at=error)
            print(f"note: plugin {name} is broken: {late}", file=sys.stderr)  # noqa: T201  why ke is so slow
        except KeyboardInterrupt as error:
            error.add_note(f"plugin {name} had been running for {monotonic() - started:.1f} s: {_left_out(name)}")
            raise
        except BaseException as error:  # noqa: BLE001  a plugin may fail in any way
            self.mark_broken(name, error)
        finally:
            old, text = self.installed[name], printed.getvalue()
            print(text, end="", file=sys.stderr)  # noqa: T201  the plugin's own output
            self.installed[name] = evolve(old, seconds=old.seconds + monotonic() - started, printed=old.printed + text)


def empty_manager() -> Plugins:
    """Return a manager with the hook specifications and no plugin."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return Plugins(manager)


def disabled_by_environment() -> frozenset[str]:
    """Return the names in ``KE_DISABLE_PLUGINS``, which are separated by commas."""
    return frozenset(name.strip() for name in os.environ.get(DISABLE, "").split(",") if name.strip())


def discover(found: Iterable[EntryPoint] | None = None, *, disabled: frozenset[str] | None = None) -> Plugins:
    """Load every installed plugin. Broken ones are listed with the reason, as are two with the same name.

    Raises PluginConflict if a plugin has the name of the core.
    """
    plugins = empty_manager()
    skip = disabled_by_environment() if disabled is None else disabled
    for point in entry_points(group=GROUP) if found is None else found:
        if point.name in skip:
            continue
        other = plugins.installed.get(point.name)
        if other is not None:
            if other.module == point.value:
                continue  # the same distribution twice on the path: an editable install and a copy
            conflict = PluginConflict(
                f"two installed plugins are called {point.name!r}: {other.module} and {point.value}",
                hint="uninstall one; its author must name the entry point like the distribution",
            )
            if point.name == CORE_DISTRIBUTION:
                raise conflict
            plugins.mark_broken(point.name, conflict)
            continue
        _load(plugins, point)
    return plugins


def _load(plugins: Plugins, point: EntryPoint) -> None:
    about = point.dist.metadata if point.dist else None  # read once, because each access reads the file again
    plugins.installed[point.name] = Installed(
        name=point.name,
        module=point.value,
        distribution=about["Name"] if about else point.name,
        version=about["Version"] if about else "",
        requires=tuple((about.get_all("Requires-Dist") if about else None) or ()),
    )
    with plugins.running(point.name):
        must_fit(plugins.installed[point.name].requires)
        plugins.add(point.load(), point.name)


def _left_out(name: str) -> str:
    return f"{DISABLE}={name} leaves it out"
