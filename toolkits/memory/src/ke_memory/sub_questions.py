"""Answer a question with the sub-questions of its dataset (``decomposition=oracle``).

::

    for each sub-question, with its correct answer before the edits      the benchmark
        retrieve facts, and compare them with that answer                the method
    return the answer of the last sub-question

Each hop is independent: its sub-question names the correct subject, whatever the method answered before. A hop without
an answer ends the walk. Each method defines how it processes a hop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from ke_core.plugin import (
    SUB_QUESTIONS,
    Answer,
    BadConfig,
    BadData,
    EditorRequest,
    Generated,
    NoLikelihood,
    Phase,
    Procedure,
    Question,
    Reply,
    Session,
    Step,
    SubQuestion,
)
from ke_memory.transcript import unparsed_outcome, unparsed_step, with_answer

Hops = Mapping[str, Mapping[Phase, Sequence[SubQuestion]]]


@frozen(kw_only=True)
class SubQuestionResult:
    """Result of one hop. The last of ``steps`` of kind ``subquestion`` holds the answer.

    ``text`` is added to the transcript. An outcome other than ``answered`` ends the walk.
    """

    steps: tuple[Step, ...]
    text: str = ""
    outcome: Literal["answered", "unparsed", "hop-cap", "length"] = "answered"

    @classmethod
    def read(cls, found: Step, written: Generated, answer: str, text: str) -> SubQuestionResult:
        """Return the result of the look-up step ``found``, with the ``answer`` parsed from ``written``.

        Without an answer, the outcome ends the walk.
        """
        if answer and written.finish != "length":
            return cls(steps=tuple(with_answer([found], answer)), text=text)
        return cls(steps=(found, unparsed_step(written.text)), text=text, outcome=unparsed_outcome(written))


HopProcedure = Callable[[SubQuestion, str], Procedure[SubQuestionResult]]
"""A method's procedure for one hop: the sub-question, and the transcript of the earlier hops."""


@frozen(kw_only=True)
class SubQuestionWalk:
    """The walk over the sub-questions of a dataset.

    ``hops``: the material ``sub-questions``, by "case/query" and phase. ``hop_procedure`` returns the procedure for the
    hops of a question. A question of more than ``cap`` hops is answered with the outcome ``hop-cap``.
    """

    hops: Hops
    hop_procedure: Callable[[Question], HopProcedure]
    cap: int | None = None

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one question hop by hop. Raises NoLikelihood, and BadData without sub-questions."""
        if not isinstance(request, Question):
            raise NoLikelihood("decomposition=oracle returns text answers, no log-probabilities")
        hops, procedure = self._of(request), self.hop_procedure(request)
        if self.cap is not None and len(hops) > self.cap:
            end = Step(kind="hop-cap", text=f"{len(hops)} sub-questions")
            return Answer(text="", steps=(end,), outcome="hop-cap")
        raw, steps = "", list[Step]()
        for given in hops:
            hop = yield from procedure(given, raw)
            raw, steps = raw + hop.text, [*steps, *hop.steps]
            if hop.outcome != "answered":
                return Answer(text="", raw=raw, steps=tuple(steps), outcome=hop.outcome)
        last = [step.answer for step in steps if step.kind == "subquestion"][-1]
        return Answer(text=last, raw=raw, steps=(*steps, Step(kind="final", text=last)))

    def _of(self, request: Question) -> Sequence[SubQuestion]:
        """Return the hops after the edits, or before them for a case tested without its edits (``uses_own_edits``)."""
        name = f"{request.case}/{request.query}"
        if name not in self.hops:
            raise BadData(
                f"the dataset has no sub-questions for question {name}",
                hint="remove decomposition=oracle, or leave out this case",
            )
        return self.hops[name]["after" if request.own else "before"]


def dataset_sub_questions(session: Session[Any], *, editor: str) -> Hops:
    """Return the session's sub-questions. Raises BadConfig if the dataset provides none."""
    if SUB_QUESTIONS not in session.material:
        raise BadConfig(
            f"{editor}.decomposition=oracle: this dataset has no {SUB_QUESTIONS}",
            hint=f"remove -o {editor}.decomposition=oracle",
        )
    found: Hops = session.material[SUB_QUESTIONS].value
    return found
