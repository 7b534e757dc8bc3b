"""Facts of a loaded model that derived hyperparameters depend on."""

from __future__ import annotations

from typing import Any

from ke_core.plugin import ModelFacts, Session, Shape, Trace
from ke_weights.keys import state_rms
from ke_weights.modules import ModuleMap
from ke_weights.trace.suggestion import suggested


def model_facts(session: Session[Any], modules: ModuleMap) -> ModelFacts:
    """Return the facts of the session's current model."""
    tokenizer = session.model.tokenizer
    return ModelFacts(
        shape=shape_of(modules), scale=lambda layer: state_rms(modules, tokenizer, layer), trace=lambda: _trace(session)
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


def _trace(session: Session[Any]) -> Trace | None:
    found = suggested(session.artifacts, session.model.plain.digest)
    if found is None:
        return None
    return Trace(layer=found.rome_layer, layers=tuple(found.memit_layers), rule=found.rule, traced=found.traced)
