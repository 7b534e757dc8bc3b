"""Facts of a loaded model that derived hyperparameters depend on."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch

from ke_core.plugin import ModelFacts, Session, Shape, Trace
from ke_weights.keys import state_rms, typical_states
from ke_weights.modules import ModuleMap
from ke_weights.trace.suggestion import suggested


def model_facts(session: Session[Any], modules: ModuleMap) -> ModelFacts:
    """Return the facts of the session's current model."""
    tokenizer = session.model.tokenizer
    return ModelFacts(
        shape=shape_of(modules),
        scale=cache(partial(state_rms, modules, tokenizer)),
        trace=lambda: _trace(session),
        map_distance=lambda layer, part, side: map_distance(
            modules, tokenizer, modules.layers[layer].map_name(part), side
        ),
    )


def shape_of(modules: ModuleMap) -> Shape:
    """Return the dimensions that identify published hyperparameters."""
    return Shape(
        family=str(modules.config.model_type),
        blocks=len(modules.layers),
        hidden=modules.hidden,
        inner=modules.inner,
        rms_norm=modules.rms_norm,
    )


def map_distance(modules: ModuleMap, tokenizer: Any, name: str, side: str) -> float:
    """Return the median Euclidean distance between the inputs of the linear map ``name`` at two tokens.

    ``side``: ``input``, or ``output`` for the distance between its outputs.

    The tokens are those of the default corpus except the first, whose state is far larger in many models. Two digits,
    so that it is equal on every machine.
    """
    place = modules.module.get_submodule(name)
    states = typical_states(modules, tokenizer, place, inputs=side == "input")
    return float(f"{float(torch.pdist(states).median()):.2g}")


def _trace(session: Session[Any]) -> Trace | None:
    found = suggested(session.artifacts, session.model.plain.digest)
    if found is None:
        return None
    return Trace(layer=found.rome_layer, layers=tuple(found.memit_layers), rule=found.rule, traced=found.traced)
