"""What a plugin promises, looked at from outside: its entry point and names here, its contracts in another process.

The contracts are pytest's business and import the test kit, so ``ke_testing.check`` runs them on its own; what it
finds comes back line by line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

from attrs import frozen

from ke_core.app import CORE_DISTRIBUTION, KINDS, Installed, Plugins, declares_core, directory_entries, registered_specs
from ke_core.plugin import BadConfig, PluginBroken, Spec, UnknownComponent, loads

Brought = tuple[str, Spec[Any]]
"""A kind, and what is offered of it."""
LAST = 2000  # characters of what a process said before it died


@frozen(kw_only=True)
class Kept:
    """One promise: whether it is kept and, if not, what was ``found``, ``where``, and what to ``do`` about it."""

    promise: str
    outcome: Literal["kept", "broken", "untried"] = "kept"
    found: str = ""
    where: str = ""
    do: str = ""


def brings(plugins: Plugins) -> dict[str, list[Brought]]:
    """What each plugin offers, taken names included. One whose hook fails is marked broken, and offers nothing."""
    found: dict[str, list[Brought]] = {name: [] for name in plugins.installed}
    for kind, expected in KINDS.items():
        for name, specs in registered_specs(plugins, f"ke_{kind}s", expected):
            found[name] += [(kind, spec) for spec in specs]
    return {name: [] if plugin.broken else found[name] for name, plugin in plugins.installed.items()}


def plugin_called(plugins: Plugins, brought: Mapping[str, Sequence[Brought]], name: str) -> Installed:
    """The installed plugin, by its own name, without ``ke-plugin-``, or by a component it brings. Raises KEErrors."""
    for called in (name, f"ke-plugin-{name}"):
        if called in plugins.installed:
            return plugins.installed[called]
    owners = [plugin for plugin, offers in brought.items() if any(spec.name == name for _, spec in offers)]
    if len(owners) == 1:
        return plugins.installed[owners[0]]
    if owners:
        raise BadConfig(f"{name} is brought by several plugins", hint=f"say which: {', '.join(owners)}")
    raise UnknownComponent(f"no plugin called {name!r} is installed", hint="ke plugins lists what is")


def outside(plugins: Plugins, brought: Mapping[str, Sequence[Brought]], name: str) -> Iterator[Kept]:
    """What can be told of a plugin without running it."""
    plugin = plugins.installed[name]
    yield _kept("it can be loaded, and its hooks return what they should", plugin.broken, plugin.step)
    if plugin.broken:
        return
    yield _kept(
        "nothing is printed while it is loaded",
        f"it prints {plugin.printed.strip().splitlines()[0]!r}" if plugin.printed.strip() else "",
        "take the print out of the module, or put it into a function that is called later",
    )
    yield _kept(
        "it says for which versions of ke-core it was built",
        "" if declares_core(plugin.requires) or plugin.distribution in ("", CORE_DISTRIBUTION) else "none is declared",
        'write "ke-core>=0.1,<0.2" (the versions it was tested with) into the dependencies of pyproject.toml',
    )
    yield _kept(
        "its entry point is called like its distribution",
        "" if plugin.distribution in ("", name) else f"it is {name} of {plugin.distribution}",
        f"[project.entry-points.ke] of pyproject.toml: {plugin.distribution} = {plugin.module!r}",
    )
    yield _kept(
        "it offers something",
        "" if brought[name] or _commands(plugins, name) else "no hook returns anything",
        "implement a hook, such as ke_editors, and mark it with @hookimpl",
    )
    for kind, spec in brought[name]:
        yield _kept(
            f"no other plugin has a {kind} called {spec.name}",
            _taken(brought, plugin, kind, spec.name),
            "give it another name in its spec",
        )


def contracts(kind: str, spec: Spec[Any], options: Mapping[str, str]) -> Iterator[tuple[int, Kept]]:
    """The promises of one component as they are tried, each with how many there are. Raises PluginBroken, BadConfig."""
    if find_spec("pytest") is None:
        raise BadConfig("the contracts need pytest, which is not installed", hint="pip install pytest")
    command = [sys.executable, "-m", "ke_testing.check", kind, spec.name, json.dumps(dict(options))]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8") as process:
            assert process.stdout is not None
            total = 0
            for line in process.stdout:
                found = loads(line)
                if "promises" in found:
                    total = found["promises"]
                else:
                    yield total, Kept(**found)
        said.seek(0)
        if process.returncode:
            raise PluginBroken(
                f"the contract of {kind} {spec.name} ended with status {process.returncode}: {_end(said.read())}",
                hint=f"run it by itself: {' '.join(command[1:4])} '{{}}'",
            )


def _kept(promise: str, wrong: str, do: str) -> Kept:
    return Kept(promise=promise, outcome="broken", found=wrong, do=do) if wrong else Kept(promise=promise)


def _taken(brought: Mapping[str, Sequence[Brought]], plugin: Installed, kind: str, name: str) -> str:
    """Who else has that name; empty for nobody."""
    for other, offers in brought.items():
        if other != plugin.name and any((kind, name) == (its_kind, spec.name) for its_kind, spec in offers):
            return f"{other} offers it too"
    for entry in directory_entries(kind):
        if entry.name == name and entry.distribution != plugin.distribution:
            return f"{entry.distribution} is known for it"
    return ""


def _commands(plugins: Plugins, name: str) -> bool:
    return any(impl.plugin_name == name for impl in plugins.manager.hook.ke_commands.get_hookimpls())


def _end(text: str) -> str:
    return " ".join(text[-LAST:].split()[-40:]) or "it said nothing"
