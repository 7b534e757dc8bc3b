"""A check for ``ke doctor``, and facts about models of a kind that only this plugin knows."""

import os
from collections.abc import Iterator
from typing import Any

from ke_core.plugin import HealthFinding, ModelFacts, Session, Shape, hookimpl


@hookimpl
def ke_doctor(base_url: str) -> Iterator[HealthFinding]:
    """Check that a server has its key."""
    if base_url and not os.environ.get("TEAMS_API_KEY"):
        yield HealthFinding(area="teams", what="no API key", state="wrong", advice="set TEAMS_API_KEY")


@hookimpl
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the facts of a model that has a shape of its own; None leaves the model to the next plugin."""
    shape = getattr(session.model, "shape", None)
    return ModelFacts(shape=shape, scale=lambda _layer: 1.0) if isinstance(shape, Shape) else None
