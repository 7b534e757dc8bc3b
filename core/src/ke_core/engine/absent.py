"""No model at all: what an editor that answers without one (a control) is run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from ke_core.data.runspec import ModelRef
from ke_core.errors import ModelUnavailable
from ke_core.requests import Generate, Score

NO_MODEL = ModelRef(source="none", id="none")


class NoModel:
    """Refuses every request: an editor whose spec says that it needs no model must not ask one."""

    id = digest = "none"
    context = 0

    def state(self) -> Mapping[str, object]:
        """Nothing can change."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> NoReturn:
        """Raise ModelUnavailable."""
        raise ModelUnavailable(f"{len(requests)} texts were asked of no model", hint="the editor's spec: needs_model")

    def score(self, requests: Sequence[Score]) -> NoReturn:
        """Raise ModelUnavailable."""
        raise ModelUnavailable(f"{len(requests)} scores were asked of no model", hint="the editor's spec: needs_model")
