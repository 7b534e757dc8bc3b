"""Names to specs, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import field, frozen

from ke_core.errors import PluginBroken, PluginConflict, UnknownComponent
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.faults import name_conflict
from ke_core.plugins.manager import Installed, Plugins
from ke_core.plugins.offers import registered_specs
from ke_core.specs import DatasetSpec, EditorSpec, EncoderSpec, JudgeSpec, MetricSpec, ModelSpec, Spec

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
    """A component and the plugin that brings it."""

    spec: Spec[Any]
    plugin: Installed


@frozen(kw_only=True)
class Catalog:
    """Every component of every plugin that could be loaded.

    ``clashes``: what two plugins offer, by kind and name. Whoever asks for it might get the other one: nobody does.
    """

    offers: Mapping[str, Mapping[str, Registration]]
    broken: Mapping[str, Installed] = field(factory=dict)
    clashes: Mapping[tuple[str, str], PluginConflict] = field(factory=dict)

    def names(self, kind: str) -> list[str]:
        """The names of a kind, sorted."""
        return sorted(self.offers[kind])

    def of(self, plugin: str) -> list[tuple[str, Spec[Any]]]:
        """(kind, spec) of everything one plugin brings."""
        return [
            (kind, offer.spec)
            for kind, offers in self.offers.items()
            for offer in offers.values()
            if offer.plugin.name == plugin
        ]

    def offer(self, kind: str, name: str) -> Registration:
        """The component of that kind and name, or an error that says what to type or install instead."""
        if (kind, name) in self.clashes:
            raise self.clashes[kind, name]
        offers = self.offers[kind]
        if name in offers:
            return offers[name]
        carriers = {entry.distribution for entry in directory_entries(kind) if entry.name == name} | {
            name,
            f"ke-plugin-{name}",
        }
        for plugin in self.broken.values():
            if carriers & {plugin.name, plugin.distribution}:
                raise PluginBroken(
                    f"{kind} {name!r} cannot be used: plugin {plugin.name} is broken ({plugin.broken})",
                    hint=f"pip install --force-reinstall {plugin.distribution}, or tell its author"
                    + (f": {plugin.step}" if plugin.step else ""),
                )
        raise UnknownComponent(f"no {kind} called {name!r}", hint=self._hint(kind, name))

    def spec(self, kind: str, name: str) -> Spec[Any]:
        """The spec alone."""
        return self.offer(kind, name).spec

    def _hint(self, kind: str, name: str) -> str:
        elsewhere = {entry.name: entry.distribution for entry in directory_entries(kind)}
        if name in elsewhere:
            return f"pip install {elsewhere[name]}"
        for near in get_close_matches(name, [*self.offers[kind], *elsewhere], n=1, cutoff=0.6):
            missing = near not in self.offers[kind]
            return f"did you mean {near!r}?" + (f" pip install {elsewhere[near]}" if missing else "")
        return f"installed {kind}s: {', '.join(self.names(kind)) or 'none'}; ke plugins --all lists more"


def read_catalog(plugins: Plugins) -> Catalog:
    """Ask every plugin what it offers; one whose hook fails, or that claims a taken name, is marked broken."""
    offers: dict[str, dict[str, Registration]] = {kind: {} for kind in KINDS}
    clashes: dict[tuple[str, str], PluginConflict] = {}
    for kind, expected in KINDS.items():
        for name, specs in registered_specs(plugins, f"ke_{kind}s", expected):
            for spec in specs:
                if spec.name in offers[kind]:
                    clash = name_conflict(f"{kind} {spec.name!r}", offers[kind][spec.name].plugin.name, name)
                    clashes[kind, spec.name] = clash
                    plugins.mark_broken(name, clash)
                    break
                offers[kind][spec.name] = Registration(spec=spec, plugin=plugins.installed[name])
    alive = {
        kind: {name: offer for name, offer in found.items() if offer.plugin.name not in plugins.broken}
        for kind, found in offers.items()
    }
    return Catalog(offers=alive, broken=plugins.broken, clashes=clashes)
