"""Checks of an installed plugin: entry point and names in this process, contracts in a subprocess.

``ke_testing.check`` runs the contracts in its own process, because they need pytest and the test kit. It prints one
result per line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_type_hints

from attrs import NOTHING, fields, frozen
from cattrs.errors import StructureHandlerNotFoundError

from ke_core.app import (
    CORE_DISTRIBUTION,
    KINDS,
    Installed,
    Plugins,
    converter,
    declares_core,
    directory_entries,
    registered_specs,
)
from ke_core.plugin import BadConfig, PluginBroken, Spec, UnknownComponent, loads

KindAndSpec = tuple[str, Spec[Any]]
"""A kind, and a component of that kind."""
READABLE = "text, numbers, bool, Literal, tuples of these, or one of these and None"
LAST = 2000  # characters of standard error that are read after a crash


@frozen(kw_only=True)
class CheckResult:
    """Result of one check. A failed check has what was ``found``, ``where``, and what to ``do`` about it."""

    check: str
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    found: str = ""
    where: str = ""
    do: str = ""


def registrations(plugins: Plugins) -> dict[str, list[KindAndSpec]]:
    """Return the registrations of each plugin, including names that are taken. A plugin whose hook fails registers
    nothing.
    """
    found: dict[str, list[KindAndSpec]] = {name: [] for name in plugins.installed}
    for kind, expected in KINDS.items():
        for name, specs in registered_specs(plugins, f"ke_{kind}s", expected):
            found[name] += [(kind, spec) for spec in specs]
    return {name: [] if plugin.broken else found[name] for name, plugin in plugins.installed.items()}


def find_plugin(plugins: Plugins, registered: Mapping[str, Sequence[KindAndSpec]], name: str) -> Installed:
    """Find an installed plugin by its name or by a component. ``ke-plugin-`` may be omitted. Raises KEErrors."""
    for called in (name, f"ke-plugin-{name}"):
        if called in plugins.installed:
            return plugins.installed[called]
    owners = [plugin for plugin, specs in registered.items() if any(spec.name == name for _, spec in specs)]
    if len(owners) == 1:
        return plugins.installed[owners[0]]
    if owners:
        raise BadConfig(f"several plugins provide {name}", hint=f"name one of them: {', '.join(owners)}")
    raise UnknownComponent(f"plugin {name!r} is not installed", hint="run ke plugins for a list")


def installation_checks(
    plugins: Plugins, registered: Mapping[str, Sequence[KindAndSpec]], name: str
) -> Iterator[CheckResult]:
    """Check a plugin without running its components."""
    plugin = plugins.installed[name]
    yield _result("it can be loaded, and its hooks return values of the right types", plugin.broken, plugin.step)
    if plugin.broken:
        return
    yield _result(
        "nothing is printed while it is loaded",
        f"it prints {plugin.printed.strip().splitlines()[0]!r}" if plugin.printed.strip() else "",
        "remove the print from the module, or move it into a function that is called later",
    )
    yield _result(
        "it declares the supported versions of ke-core",
        ""
        if declares_core(plugin.requires) or plugin.distribution in ("", CORE_DISTRIBUTION)
        else "no version range is declared",
        'add "ke-core>=0.1,<0.2" (the versions it was tested with) to the dependencies in pyproject.toml',
    )
    yield _result(
        "its entry point has the name of its distribution",
        ""
        if plugin.distribution in ("", name)
        else f"the entry point is {name}, the distribution {plugin.distribution}",
        f"write under [project.entry-points.ke] in pyproject.toml: {plugin.distribution} = {plugin.module!r}",
    )
    yield _result(
        "it registers a component or implements another hook",
        "" if registered[name] or _implements_other_hooks(plugins, name) else "no hook returns a component",
        "implement a hook, such as ke_editors, and decorate it with @hookimpl",
    )
    for kind, spec in registered[name]:
        yield _result(
            f"no other plugin has a {kind} called {spec.name}",
            _taken(registered, plugin, kind, spec.name),
            "choose another name in its spec",
        )
        yield _result(f"the options of {kind} {spec.name} can be set", *_option_problem(spec))


def contracts(kind: str, spec: Spec[Any], options: Mapping[str, str]) -> Iterator[tuple[int, CheckResult]]:
    """Run a component's contract. Yield each result with the number of checks. Raises PluginBroken, BadConfig."""
    if find_spec("pytest") is None:
        raise BadConfig("the contracts need pytest, which is not installed", hint="pip install pytest")
    command = [sys.executable, "-m", "ke_testing.check", kind, spec.name, json.dumps(dict(options))]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8") as process:
            assert process.stdout is not None
            total = 0
            for line in process.stdout:
                found = loads(line)
                if "checks" in found:
                    total = found["checks"]
                else:
                    yield total, CheckResult(**found)
        errors.seek(0)
        if process.returncode:
            raise PluginBroken(
                f"the contract of {kind} {spec.name} ended with status {process.returncode}: {_end(errors.read())}",
                hint=f"to see its output, run: {' '.join(command[1:4])} '{{}}'",
            )


def _result(check: str, problem: str, do: str) -> CheckResult:
    return CheckResult(check=check, outcome="failed", found=problem, do=do) if problem else CheckResult(check=check)


def _taken(registered: Mapping[str, Sequence[KindAndSpec]], plugin: Installed, kind: str, name: str) -> str:
    """Return which other plugin or distribution has that name; empty if none has."""
    for other, specs in registered.items():
        if other != plugin.name and any((kind, name) == (its_kind, spec.name) for its_kind, spec in specs):
            return f"{other} registers it too"
    for entry in directory_entries(kind):
        if entry.name == name and entry.distribution != plugin.distribution:
            return f"{entry.distribution} is listed with that name in the plugin directory"
    return ""


def _option_problem(spec: Spec[Any]) -> tuple[str, str]:
    """Return what is wrong with an option and what to do. Both are empty if ``-o`` can set every option."""
    owner = spec.config.__name__
    try:
        hints = get_type_hints(spec.config)
    except NameError as error:
        return (
            f"the types of its options cannot be resolved: {error}",
            f"import them outside of TYPE_CHECKING in {owner}",
        )
    for option in fields(spec.config):
        where = f"{owner}.{option.name}"
        if option.name not in hints:
            return f"option {option.name} has no type", f"annotate {where}: {READABLE}"
        if _is_mutable(option.default):
            do = f"make the default of {where} a tuple, text, number or frozen class"
            return f"option {option.name} has a mutable default, {option.default!r}", do
        try:
            converter().get_structure_hook(hints[option.name])
        except StructureHandlerNotFoundError:
            what = f"option {option.name} is of type {hints[option.name]}, which cannot be read from text"
            return what, f"change the type of {where}: {READABLE}"
    return "", ""


def _is_mutable(default: object) -> bool:
    """Return whether all configs would share a default that can change: it has no hash, or only that of ``object``."""
    return default not in (NOTHING, None) and type(default).__hash__ in (None, object.__hash__)


def _implements_other_hooks(plugins: Plugins, name: str) -> bool:
    """Return whether the plugin implements a hook that does not register components, such as ``ke_commands``."""
    callers = plugins.manager.get_hookcallers(plugins.manager.get_plugin(name)) or []
    return any(caller.name not in {f"ke_{kind}s" for kind in KINDS} for caller in callers)


def _end(text: str) -> str:
    return " ".join(text[-LAST:].split()[-40:]) or "no output"
