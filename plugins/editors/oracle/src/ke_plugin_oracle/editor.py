"""The oracle: whatever it scores below 100 % is the fault of the benchmark, the judge or the metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Answer, Ask, BadConfig, Details, Edit, Edited, Failure, Question, Reply, Session
from ke_plugin_oracle import ANSWERS


class OracleModel:
    """Looks each question up; ``answers`` maps ``case/query`` to the gold answer of the edited world."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers

    @property
    def details(self) -> Details:
        """How many answers there are."""
        return {"answers": len(self._answers)}

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """The gold answer to each question; a failure where the dataset gives none."""
        return [self._one(ask) for ask in asks]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Nothing to do: the answers are those of the edited world, whichever edits are in force."""

    def _one(self, ask: Ask) -> Reply:
        if not isinstance(ask, Question):
            return Failure(error="NoLikelihood", message="the oracle has no model to give log-probabilities")
        answer = self._answers.get(f"{ask.case}/{ask.query}")
        if answer is None:
            return Failure(error="LookupError", message="the dataset gives the oracle no answer to this question")
        return Answer(text=answer)


class Oracle:
    """Edits nothing; knows everything."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Every edit is known to it."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """The model is not used. Raises BadConfig if the dataset brings no gold answers."""
        del edits
        if ANSWERS not in session.material:
            raise BadConfig(
                f"the dataset brings no material {ANSWERS!r} for the oracle",
                hint="leave the oracle out for this dataset",
            )
        yield OracleModel(session.material[ANSWERS].value)
