"""Names to specs, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import field, frozen

from ke_core.errors import PluginBroken, PluginConflict, UnknownComponent
from ke_core.plugins.directory import known
from ke_core.plugins.manager import Installed, Plugins
from ke_core.plugins.offers import returned
from ke_core.specs import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec, ModelSpec, Spec

KINDS: Mapping[str, type[Spec[Any]]] = {
    "editor": EditorSpec,
    "dataset": DatasetSpec,
    "metric": MetricSpec,
    "judge": JudgeSpec,
    "model": ModelSpec,
}


@frozen(kw_only=True)
class Offer:
    """A component and the plugin that brings it."""

    spec: Spec[Any]
    plugin: Installed


@frozen(kw_only=True)
class Catalog:
    """Every component of every plugin that could be loaded."""

    offers: Mapping[str, Mapping[str, Offer]]
    broken: Mapping[str, Installed] = field(factory=dict)

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

    def offer(self, kind: str, name: str) -> Offer:
        """The component of that kind and name, or an error that says what to type or install instead."""
        offers = self.offers[kind]
        if name in offers:
            return offers[name]
        carriers = {entry.distribution for entry in known(kind) if entry.name == name} | {name, f"ke-plugin-{name}"}
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
        elsewhere = {entry.name: entry.distribution for entry in known(kind)}
        if name in elsewhere:
            return f"pip install {elsewhere[name]}"
        for near in get_close_matches(name, [*self.offers[kind], *elsewhere], n=1, cutoff=0.6):
            missing = near not in self.offers[kind]
            return f"did you mean {near!r}?" + (f" pip install {elsewhere[near]}" if missing else "")
        return f"installed {kind}s: {', '.join(self.names(kind)) or 'none'}; ke plugins --all lists more"


def read(plugins: Plugins) -> Catalog:
    """Ask every plugin what it offers; one whose hook fails or returns a wrong type is marked broken."""
    offers: dict[str, dict[str, Offer]] = {kind: {} for kind in KINDS}
    for kind, expected in KINDS.items():
        for impl in getattr(plugins.manager.hook, f"ke_{kind}s").get_hookimpls():
            hook = f"ke_{kind}s"
            try:
                with plugins.listening(impl.plugin_name):
                    specs = returned(hook, impl.function(), expected)
            except Exception as error:  # noqa: BLE001  a plugin may fail in any way; the others must still work
                plugins.mark_broken(impl.plugin_name, error)
                continue
            for spec in specs:
                _add(offers[kind], kind, spec, plugins.installed[impl.plugin_name])
    alive = {
        kind: {name: offer for name, offer in found.items() if offer.plugin.name not in plugins.broken}
        for kind, found in offers.items()
    }
    return Catalog(offers=alive, broken=plugins.broken)


def _add(offers: dict[str, Offer], kind: str, spec: Spec[Any], plugin: Installed) -> None:
    if spec.name in offers:
        other = offers[spec.name].plugin.name
        twice = f"twice by {other}" if other == plugin.name else f"by {other} and by {plugin.name}"
        raise PluginConflict(
            f"{kind} {spec.name!r} is offered {twice}",
            hint="uninstall one, or skip one with KE_DISABLE_PLUGINS=NAME; the author of one gives it another name",
        )
    offers[spec.name] = Offer(spec=spec, plugin=plugin)
