"""Options and model together: the matrix that is copied, and the numbers of training, sharding and routing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from ke_core.plugin import BadConfig, Session, Setting
from ke_plugin_wise import WiseConfig, derive
from ke_plugin_wise.memories import Sharding
from ke_plugin_wise.objective import Margins
from ke_plugin_wise.routing import ACTIVATIONS
from ke_plugin_wise.training import Place, TrainingSettings
from ke_weights import MapRange
from ke_weights.plugin import ModuleMap, OpenModel, find_parts, model_facts, named_maps

NAMES = ("hidden_activation", "hidden_act", "activation_function", "activation")
"""Names of the activation function in configurations."""


@frozen(kw_only=True, eq=False)
class ResolvedWise:
    """``act_ratio``: threshold relative to the smallest score. ``mask_ratio``: fraction of trained entries.

    ``contexts`` and ``corpus``: as in the options.
    """

    values: Mapping[str, Setting]
    place: Place
    training: TrainingSettings
    sharding: Sharding
    act_ratio: float
    mask_ratio: float
    contexts: int
    corpus: str


def resolve(config: WiseConfig, session: Session[OpenModel]) -> ResolvedWise:
    """Return the settings for the session's model. Raises a KEError if the options do not fit it."""
    if config.merge_freq % config.save_freq:
        raise BadConfig(
            f"wise.merge_freq is no multiple of wise.save_freq ({config.save_freq}): {config.merge_freq}",
            hint=f"use -o wise.merge_freq={-(-config.merge_freq // config.save_freq) * config.save_freq}",
        )
    modules = find_parts(session.model.module)
    values = derive(config, model_facts(session, modules))
    chosen = {name: setting.value for name, setting in values.items()}
    released = config.profile == "paper"
    return ResolvedWise(
        values=values,
        place=_place(modules, chosen["module"], released=released),
        training=TrainingSettings(
            steps=chosen["steps"],
            lr=chosen["lr"],
            margins=Margins(
                alpha=chosen["alpha"], beta=chosen["beta"], gamma=chosen["gamma"], weight=chosen["margin_weight"]
            ),
            weight_decay=config.weight_decay,
            clamp=config.clamp,
            activation=_activation(modules) if chosen["score"] == "activation" else "",
            released=released,
        ),
        sharding=Sharding(
            variant=config.variant, save_freq=config.save_freq, merge_freq=config.merge_freq, density=config.density
        ),
        act_ratio=chosen["act_ratio"],
        mask_ratio=config.mask_ratio,
        contexts=config.contexts,
        corpus=config.corpus,
    )


def _place(modules: ModuleMap, module: str, *, released: bool) -> Place:
    entry = MapRange.of(module)
    if entry.first != entry.last:
        raise BadConfig(f"wise.module names several layers: {module!r}", hint=f"use one, such as down:{entry.first}")
    (name,) = named_maps(modules, (module,), "wise")
    place = Place(modules=modules, name=name, layer=entry.first, bias=None)
    bias = getattr(place.module, "bias", None)
    if released and bias is not None and not modules.layers[entry.first].conv1d:
        place = Place(modules=modules, name=name, layer=entry.first, bias=bias.detach())
    return place


def _activation(modules: ModuleMap) -> str:
    """Return the model's activation function. Raises BadConfig if it is not one of ACTIVATIONS."""
    found: Any = next((getattr(modules.config, name) for name in NAMES if hasattr(modules.config, name)), None)
    found = "silu" if found == "swish" else found
    if found not in ACTIVATIONS[1:]:
        raise BadConfig(
            f"wise.score=activation does not support the activation function of this model: {found}",
            hint="use -o wise.score=output",
        )
    return str(found)
