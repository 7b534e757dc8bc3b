"""From names and options to components: what was chosen, and what stands for it in records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import fields_dict, frozen

from ke_core.data.codec import digest, from_json
from ke_core.data.runspec import Component
from ke_core.errors import BadConfig, BadRun
from ke_core.files import sha256_of
from ke_core.plugins.built import built
from ke_core.plugins.catalog import Catalog, Offer
from ke_core.plugins.options import configure, kind_of, resolved
from ke_core.specs import Spec

Options = Mapping[str, Mapping[str, str]]
"""``{prefix: {field: text}}``, as ``ke_core.plugins.options.split`` makes it."""

DATA_DIR = "data_dir"
"""The option that says where data files lie: of this machine, and so not part of a run."""


@frozen(kw_only=True)
class Chosen:
    """A component with its options."""

    spec: Spec[Any]
    config: Any
    component: Component

    def build(self) -> Any:
        """The thing itself. Raises PluginBroken where its plugin fails to build it."""
        return built(self.spec, self.config, plugin=self.component.distribution)


def choose(catalog: Catalog, kind: str, name: str, options: Options) -> Chosen:
    """The component of that kind and name, with the options under its prefix."""
    offer = catalog.offer(kind, name)
    return _chosen(offer, configure(offer.spec, options.get(offer.spec.prefix)))


def choose_again(catalog: Catalog, kind: str, recorded: Component, *, data_dir: str = "") -> Chosen:
    """The component that a run was made with, as installed now."""
    offer = catalog.offer(kind, recorded.name)
    given = with_flag(offer.spec, {}, DATA_DIR, data_dir).get(offer.spec.prefix, {})
    config: Any = from_json(
        {**recorded.options, **given},
        offer.spec.config,
        of=f"recorded options of {recorded.name}",
        error=BadRun,
        hint=f"the run was made with {recorded.distribution} {recorded.version}: install that version",
    )
    return _chosen(offer, config)


def with_flag(spec: Spec[Any], options: Options, name: str, value: str) -> dict[str, dict[str, str]]:
    """``options`` with a command-line flag (``--data-dir``) as the component's option of that name.

    Raises BadConfig if the component has no such option, or if it is given as an option too.
    """
    found = {prefix: dict(given) for prefix, given in options.items()}
    if not value:
        return found
    flag = f"--{name.replace('_', '-')}"
    if name not in fields_dict(spec.config):
        raise BadConfig(f"{kind_of(spec)} {spec.name} takes no {flag}", hint=f"ke show {kind_of(spec)} {spec.name}")
    own = found.setdefault(spec.prefix, {})
    if own.get(name, value) != value:
        raise BadConfig(f"{flag} and -o {spec.prefix}.{name} say different things", hint="give one of them")
    own[name] = value
    return found


def _chosen(offer: Offer, config: Any) -> Chosen:
    options = {name: value for name, value in resolved(config).items() if name != DATA_DIR}
    for name, attribute in fields_dict(type(config)).items():
        if attribute.metadata.get("file") and options[name]:
            options[name] = _content(str(options[name]))
    plugin = offer.plugin
    component = Component(
        name=offer.spec.name, distribution=plugin.distribution, version=plugin.version, options=options
    )
    return Chosen(spec=offer.spec, config=config, component=component)


def _content(name: str) -> str:
    """An option that names a file or a folder, by what is in it: that changes replies, not where it lies."""
    path = Path(name).expanduser()
    found = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
    if not found:
        return name  # not a path: a name that the component itself knows
    return f"sha256:{digest([[str(inner.relative_to(path)), sha256_of(inner)] for inner in found])}"
