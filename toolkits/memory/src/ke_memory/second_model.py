"""A second local model of an editor, next to the one of its session."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from ke_core.app import BatchingEngine
from ke_core.plugin import DEFAULT_LOADING, Session
from ke_plugin_hf.spec import build


def second_session(session: Session[Any], name: str) -> Session[Any]:
    """Return a session like ``session`` with the local model ``name``, and an engine that sends requests to it.

    ``name``: a known model, a folder or a Hub id. It is loaded in float32, on the device of the session's own model.
    Raises ModelUnavailable.
    """
    model = build(evolve(DEFAULT_LOADING, id=name, device=str(getattr(session.model, "device", ""))))
    return evolve(session, model=model, engine=BatchingEngine(model, seed=session.seed, progress=session.progress))
