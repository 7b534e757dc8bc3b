"""Find components by kind and name, and check what plugins register."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen

from ke_core.plugins.directory import directory_entries
from ke_core.plugins.faults import name_conflict
from ke_core.plugins.manager import Installed, Plugins
from ke_core.spec.component import Spec
from ke_core.spec.errors import BadConfig, PluginBroken, PluginConflict, UnknownComponent, did_you_mean
from ke_core.spec.specs import DatasetSpec, EditorSpec, EncoderSpec, JudgeSpec, MetricSpec, ModelSpec

KINDS: Mapping[str, type[Spec[Any]]] = {
    "editor": EditorSpec,
    "dataset": DatasetSpec,
    "metric": MetricSpec,
    "judge": JudgeSpec,
    "model": ModelSpec,
    "encoder": EncoderSpec,
}


@frozen(kw_only=True)
class Registration:
    """A component and the plugin that provides it. ``parts``: the other plugins that a composed one uses."""

    spec: Spec[Any]
    plugin: Installed
    parts: tuple[Installed, ...] = ()


@frozen(kw_only=True)
class Catalog:
    """The components of all plugins that could be loaded.

    ``clashes``: names that two plugins register, by kind and name. Neither component can be used. ``composed``: the
    hook ``ke_composed_component``, which knows the components of names that nobody registers. ``installed``: all
    plugins, toolkits included.
    """

    registrations: Mapping[str, Mapping[str, Registration]]
    broken: Mapping[str, Installed] = field(factory=dict)
    clashes: Mapping[tuple[str, str], PluginConflict] = field(factory=dict)
    composed: Callable[..., Registration | None] = field(default=lambda **_given: None, eq=False)
    installed: Sequence[Installed] = ()

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind, sorted."""
        return sorted(self.registrations.get(kind, ()))

    def of(self, plugin: str) -> list[tuple[str, Spec[Any]]]:
        """Return kind and spec of each component of a plugin."""
        return [
            (kind, one.spec)
            for kind, found in self.registrations.items()
            for one in found.values()
            if one.plugin.name == plugin
        ]

    def registration(self, kind: str, name: str) -> Registration:
        """Return the component of that kind and name. The error for an unknown one says what to type or to install."""
        if (kind, name) in self.clashes:
            raise self.clashes[kind, name]
        registrations = self.registrations[kind]
        if found := registrations.get(name) or self.composed(kind=kind, name=name, catalog=self):
            return found
        self._refuse_broken(kind, name)
        raise UnknownComponent(f"no {kind} called {name!r}", hint=self._hint(kind, name))

    def kind_of(self, name: str) -> str:
        """Return the kind of the component of that name. Raises BadConfig if several kinds have one, else as above."""
        found = [kind for kind in KINDS if name in self.registrations[kind] or (kind, name) in self.clashes]
        if len(found) > 1:
            raise BadConfig(f"{name!r} is ambiguous: {', '.join(found)}", hint=f"ke show {found[0]} {name}")
        found += [kind for kind in KINDS if not found and self.composed(kind=kind, name=name, catalog=self)]
        found += [entry.kind for entry in directory_entries() if entry.name == name]
        if not found:
            self._refuse_broken("component", name)
            names = [name for registrations in self.registrations.values() for name in registrations]
            hint = did_you_mean(name, names, "ke plugins lists the installed components")
            raise UnknownComponent(f"no component called {name!r}", hint=hint)
        return found[0]

    def spec(self, kind: str, name: str) -> Spec[Any]:
        """Return the spec of a component."""
        return self.registration(kind, name).spec

    def _refuse_broken(self, kind: str, name: str) -> None:
        """Raise PluginBroken if a broken plugin brings a component of that name."""
        carriers = {entry.distribution for entry in directory_entries() if (entry.kind, entry.name) == (kind, name)}
        for plugin in self.broken.values():
            if (carriers | {name, f"ke-plugin-{name}"}) & {plugin.name, plugin.distribution}:
                raise PluginBroken(
                    f"{kind} {name!r} cannot be used: plugin {plugin.name} is broken ({plugin.broken})",
                    hint=f"pip install --force-reinstall {plugin.distribution}, or tell its author"
                    + (f": {plugin.step}" if plugin.step else ""),
                )

    def _hint(self, kind: str, name: str) -> str:
        elsewhere = {entry.name: entry.distribution for entry in directory_entries(kind)}
        if name in elsewhere:
            return f"pip install {elsewhere[name]}"
        if kind == "dataset" and Path(name).suffix in (".json", ".jsonl", ".csv"):
            return f"for a file of your own: --dataset cases -o cases.file={name}"
        if "," in name:
            return f"repeat the option for each: {' '.join(f'--{kind} {one.strip()}' for one in name.split(','))}"
        for near in get_close_matches(name, [*self.registrations[kind], *elsewhere], n=1, cutoff=0.6):
            missing = near not in self.registrations[kind]
            return f"did you mean {near!r}?" + (f" pip install {elsewhere[near]}" if missing else "")
        return f"installed {kind}s: {', '.join(self.names(kind)) or 'none'}; ke plugins search lists more"


def read_catalog(plugins: Plugins) -> Catalog:
    """Read the specs of every plugin. A plugin whose hook fails, or that uses a taken name, is marked broken."""
    registrations: dict[str, dict[str, Registration]] = {kind: {} for kind in KINDS}
    clashes: dict[tuple[str, str], PluginConflict] = {}
    for kind, expected in KINDS.items():
        for name, specs in registered_specs(plugins, f"ke_{kind}s", expected):
            for spec in specs:
                if spec.name in registrations[kind]:
                    clash = name_conflict(f"{kind} {spec.name!r}", registrations[kind][spec.name].plugin.name, name)
                    clashes[kind, spec.name] = clash
                    plugins.mark_broken(name, clash)
                    break
                registrations[kind][spec.name] = Registration(spec=spec, plugin=plugins.installed[name])
    alive = {
        kind: {name: one for name, one in found.items() if one.plugin.name not in plugins.broken}
        for kind, found in registrations.items()
    }
    hook = plugins.manager.hook.ke_composed_component
    return Catalog(
        registrations=alive,
        broken=plugins.broken,
        clashes=clashes,
        composed=partial(hook, plugins=plugins),
        installed=[*plugins.installed.values()],
    )


S = TypeVar("S")
SHOWN = 80  # characters of an invalid value that are quoted


def registered_specs(plugins: Plugins, hook: str, expected: type[S]) -> Iterator[tuple[str, list[S]]]:
    """Return each plugin with that hook, and its specs. One that fails or returns a wrong type is marked broken."""
    for impl in plugins.implementations(hook):
        specs: list[S] | None = None
        with plugins.running(impl.plugin_name):
            specs = returned(hook, impl.function(), expected)
        if specs is not None:
            yield impl.plugin_name, specs


def returned(hook: str, found: Any, expected: type[S]) -> list[S]:
    """Return the specs of a hook. Raises PluginBroken for anything else."""
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
        raise PluginBroken(
            f"{hook} returned {_shown(found)}, not a list of {expected.__name__}",
            hint=f"return a list of {expected.__name__} from {hook}, an empty one if it has none",
        )
    specs = list(found)
    one = f"{'an' if expected.__name__[0] in 'AEIOU' else 'a'} {expected.__name__}"
    for spec in specs:
        if not isinstance(spec, expected):
            raise PluginBroken(
                f"{hook} returned {_shown(spec)} in its list, not {one}",
                hint=f"every item that {hook} returns is {one} from ke_core.plugin",
            )
    return specs


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
