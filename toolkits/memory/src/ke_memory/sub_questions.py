"""The walk through a question that its benchmark has taken apart (``decomposition=oracle``).

::

    for each sub-question, with the answer that was right before the edits      the benchmark
        retrieve, and weigh what was retrieved against that answer              the method
    the answer is that of the last sub-question

Each hop stands for itself: its sub-question names what is right before it, whatever the method found there. A hop that
names no answer ends the walk. What a hop is, each method says for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from ke_core.plugin import (
    SUB_QUESTIONS,
    Answer,
    Ask,
    BadConfig,
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
from ke_memory.transcript import unread, unread_outcome, with_answer

Hops = Mapping[str, Mapping[Phase, Sequence[SubQuestion]]]


@frozen(kw_only=True)
class SubQuestionResult:
    """What one hop came to. Of ``steps`` the last one of kind ``subquestion`` holds its answer.

    ``text`` is what it adds to the transcript. An outcome other than ``answered`` ends the walk.
    """

    steps: tuple[Step, ...]
    text: str = ""
    outcome: Literal["answered", "unparsed", "hop-cap", "length"] = "answered"

    @classmethod
    def read(cls, found: Step, written: Generated, answer: str, text: str) -> SubQuestionResult:
        """The hop of the look-up ``found``, with the ``answer`` read from ``written``; without one it ends the walk."""
        if answer and written.finish != "length":
            return cls(steps=tuple(with_answer([found], answer)), text=text)
        return cls(steps=(found, unread(written.text)), text=text, outcome=unread_outcome(written))


HopProcedure = Callable[[SubQuestion, str], Procedure[SubQuestionResult]]
"""How a method takes one hop of a question: the sub-question, and the transcript of the hops before it."""


@frozen(kw_only=True)
class SubQuestionWalk:
    """The walk. ``hops``: the material ``sub-questions``, by "case/query" and phase.

    ``way`` says for a question how its hops are taken. A question of more than ``cap`` hops is not begun: ``hop-cap``.
    """

    hops: Hops
    way: Callable[[Question], HopProcedure]
    cap: int | None = None

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question, hop by hop. Raises NoLikelihood, or LookupError where it was not taken apart."""
        if not isinstance(ask, Question):
            raise NoLikelihood("over given sub-questions there are answers in words and no log-probabilities")
        hops, way = self._of(ask), self.way(ask)
        if self.cap is not None and len(hops) > self.cap:
            end = Step(kind="hop-cap", text=f"{len(hops)} sub-questions")
            return Answer(text="", steps=(end,), outcome="hop-cap")
        raw, steps = "", list[Step]()
        for given in hops:
            hop = yield from way(given, raw)
            raw, steps = raw + hop.text, [*steps, *hop.steps]
            if hop.outcome != "answered":
                return Answer(text="", raw=raw, steps=tuple(steps), outcome=hop.outcome)
        last = [step.answer for step in steps if step.kind == "subquestion"][-1]
        return Answer(text=last, raw=raw, steps=(*steps, Step(kind="final", text=last)))

    def _of(self, ask: Question) -> Sequence[SubQuestion]:
        """The hops of the edited world; of the old one for a control, which owns no edit (``uses_own_edits``)."""
        name = f"{ask.case}/{ask.query}"
        if name not in self.hops:
            raise LookupError("the dataset gives no sub-questions to this question")
        return self.hops[name]["after" if ask.own else "before"]


def dataset_sub_questions(session: Session[Any], *, editor: str) -> Hops:
    """The session's sub-questions. Raises BadConfig where the dataset brings none."""
    if SUB_QUESTIONS not in session.material:
        raise BadConfig(
            f"{editor}.decomposition=oracle: this dataset brings no {SUB_QUESTIONS}", hint="leave the option"
        )
    found: Hops = session.material[SUB_QUESTIONS].value
    return found
