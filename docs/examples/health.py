"""A check for ``ke doctor``, and the shape of models that only this plugin supports."""

import os
from collections.abc import Iterator
from typing import Any

from ke_core.plugin import HealthFinding, ModelFacts, Session, Shape, hookimpl


@hookimpl
def ke_doctor(base_url: str) -> Iterator[HealthFinding]:
    """Check that the server's API key is set."""
    if base_url and not os.environ.get("TEAMS_API_KEY"):
        yield HealthFinding(area="teams", what="no API key", state="wrong", advice="set TEAMS_API_KEY")


@hookimpl
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the facts of a model with the attribute ``shape``, or None to pass the model to the next plugin."""
    shape = getattr(session.model, "shape", None)
    return ModelFacts(shape=shape, scale=lambda _layer: 1.0) if isinstance(shape, Shape) else None
