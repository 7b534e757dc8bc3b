"""MeLLo, section 5 of Zhong et al. 2023: the model takes a question apart, and a memory of edits answers back.

::

    Question: ...                                          given, after four worked examples
    Subquestion: ...                                       the model
    Generated answer: ...                                  the model, from what it knows
    Retrieved fact: ...                                    the memory: the statement nearest to the sub-question
    ... so the answer here is: ...                         the model: does the fact contradict its answer?
    Subquestion: ...                                       the model, and so on
    Final answer: ...                                      the model

Nothing but sub-questions and the final answer is parsed: the model itself weighs a fact against its own answer, in
the same call that asks the next sub-question.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ke_core.plugin import (
    Answer,
    Ask,
    Generate,
    Generated,
    Hit,
    Nearest,
    NoLikelihood,
    Procedure,
    Question,
    Reply,
    Step,
)
from ke_core.retrieval import FactMemory
from ke_plugin_mello.turns import FACT, Turn, first_step, last_lines

NOTHING = "there is none"
"""What stands in place of a fact where the memory is empty, or everything in it is hidden."""


@frozen(kw_only=True)
class Profile:
    """Where the published loop and a sound one differ.

    ``calls``: call i asks sub-question i and one more gives the final answer, so that 4 calls cannot finish 4
    sub-questions. ``stop``: a model without instruction tuning goes on to invent the next example. ``read``:
    what counts of a turn, its last lines or its first step.
    """

    calls: int
    stop: tuple[str, ...]
    read: Callable[[Generated], Turn]


PROFILES = {
    "paper": Profile(calls=4, stop=(FACT,), read=last_lines),
    "fixed": Profile(calls=5, stop=(FACT, "\nQuestion:"), read=first_step),
}


@frozen(kw_only=True)
class Loop:
    """The loop over one memory. ``examples``: the worked examples, without space at the end."""

    memory: FactMemory
    examples: str
    profile: Profile
    calls: int
    max_tokens: int

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question; every way in which it can end otherwise is an outcome of the answer."""
        if not isinstance(ask, Question):
            raise NoLikelihood("mello answers in words and gives no log-probabilities")
        start = f"{self.examples}\n\nQuestion: {ask.texts[0]}"
        state, steps = start, list[Step]()
        for _call in range(self.calls):
            written: Generated = yield Generate(prompt=state, stop=self.profile.stop, max_tokens=self.max_tokens)
            turn = self.profile.read(written)
            state += turn.text
            raw = state[len(start) :]
            if turn.final is not None:
                steps.append(Step(kind="final", text=turn.final))
                return Answer(text=turn.final, raw=raw, steps=tuple(steps))
            if turn.subquestion is None:
                steps.append(Step(kind="unparsed", text=turn.text.strip()))
                cut = written.finish == "length"
                return Answer(text="", raw=raw, steps=tuple(steps), outcome="length" if cut else "unparsed")
            hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=turn.subquestion, k=1, hidden=ask.hidden)
            steps.append(_step(turn.subquestion, hits))
            state = f"{state.rstrip()}\n{FACT} {hits[0].text if hits else NOTHING}."
        return Answer(text="", raw=state[len(start) :], steps=tuple(steps), outcome="hop-cap")


def _step(subquestion: str, hits: tuple[Hit, ...]) -> Step:
    return Step(
        kind="subquestion",
        text=subquestion,
        retrieved=tuple(hit.id for hit in hits),
        scores=tuple(hit.score for hit in hits),
    )
