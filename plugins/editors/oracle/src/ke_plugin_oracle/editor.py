"""The oracle: a score below 100% is caused by the benchmark, the judge or the metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Answer, BadConfig, Details, Edit, Edited, EditorRequest, Failure, Question, Reply, Session
from ke_plugin_oracle import ANSWERS


class OracleModel:
    """``answers`` maps ``case/query`` to the gold answer after the edits."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers

    @property
    def details(self) -> Details:
        """Number of answers."""
        return {"answers": len(self._answers)}

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return the gold answer to each question; a failure if the dataset has none."""
        return [self._one(request) for request in requests]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Do nothing: the answers do not depend on the active edits."""

    def _one(self, request: EditorRequest) -> Reply:
        if not isinstance(request, Question):
            return Failure(error="NoLikelihood", message="oracle has no model and returns no log-probabilities")
        answer = self._answers.get(f"{request.case}/{request.query}")
        if answer is None:
            return Failure(error="LookupError", message="the dataset has no gold answer to this question")
        return Answer(text=answer)


class Oracle:
    """Editor whose edited model returns gold answers."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse no edit."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Return the edited model, which does not use the session's model. Raises BadConfig without gold answers."""
        del edits
        if ANSWERS not in session.material:
            raise BadConfig(
                f"the dataset has no material {ANSWERS!r} for the editor oracle",
                hint="remove --editor oracle for this dataset",
            )
        yield OracleModel(session.material[ANSWERS].value)
