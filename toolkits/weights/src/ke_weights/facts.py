"""Facts of a loaded model that derived hyperparameters depend on, such as the layers that ``ke trace`` suggests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.plugin import (
    Artifacts,
    BadData,
    ModelFacts,
    Session,
    Shape,
    Trace,
    from_json,
    read_value,
    to_json,
    write_value,
)
from ke_weights.keys import state_rms
from ke_weights.modules import ModuleMap

KIND = "trace"


@frozen(kw_only=True)
class Suggestion:
    """Layers for editing, ascending, and the rule by which the curves of ``facts`` facts determined them."""

    rome_layer: int
    memit_layers: tuple[int, ...]
    rule: str
    facts: int


def model_facts(session: Session[Any], modules: ModuleMap) -> ModelFacts:
    """Return the facts of the session's current model."""
    tokenizer = session.model.tokenizer
    shape = Shape(
        family=str(modules.config.model_type),
        blocks=len(modules.layers),
        hidden=modules.hidden,
        inner=modules.inner,
        rms_norm=modules.rms_norm,
    )
    return ModelFacts(
        shape=shape, scale=lambda layer: state_rms(modules, tokenizer, layer), trace=lambda: _trace(session)
    )


def _trace(session: Session[Any]) -> Trace | None:
    found = suggested(session.artifacts, session.model.plain.digest)
    return None if found is None else Trace(layer=found.rome_layer, layers=found.memit_layers, rule=found.rule)


def suggested(artifacts: Artifacts, model_digest: str) -> Suggestion | None:
    """Return the suggestion of the last trace of these weights; None if there is none.

    Raises BadData for a damaged file.
    """
    path = _path(artifacts, model_digest)
    if not path.exists():
        return None
    hint = f"delete {path} and run ke trace again"
    return from_json(read_value(path, hint=hint), Suggestion, of=str(path), error=BadData, hint=hint)


def store(artifacts: Artifacts, model_digest: str, suggestion: Suggestion) -> None:
    """Save ``suggestion`` for this model."""
    write_value(_path(artifacts, model_digest), to_json(suggestion))


def _path(artifacts: Artifacts, model_digest: str) -> Path:
    return artifacts.path(KIND, {"model": model_digest}, ".json")
