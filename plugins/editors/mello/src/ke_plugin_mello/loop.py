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

from attrs import frozen

from ke_core.plugin import Answer, Ask, Generate, Generated, Hit, Nearest, Procedure, Question, Reply, Step
from ke_core.retrieval import FactMemory

SUBQUESTION, FACT, FINAL = "Subquestion:", "Retrieved fact:", "Final answer:"
NOTHING = "there is none"
"""What stands in place of a fact where the memory is empty, or everything in it is hidden."""


@frozen(kw_only=True)
class Profile:
    """Where the published loop and a sound one differ.

    ``calls``: call i asks sub-question i and one more gives the final answer, so that 4 calls cannot finish 4
    sub-questions. ``stop``: a model without instruction tuning goes on to invent the next example.
    ``first_final``: read the first line with a final answer, not only the last line.
    """

    calls: int
    stop: tuple[str, ...]
    first_final: bool


PROFILES = {
    "paper": Profile(calls=4, stop=(FACT,), first_final=False),
    "fixed": Profile(calls=5, stop=(FACT, "\nQuestion:"), first_final=True),
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
            raise NotImplementedError("MeLLo answers in words and gives no log-probabilities")
        start = f"{self.examples}\n\nQuestion: {ask.texts[0]}"
        state, steps = start, list[Step]()
        for _call in range(self.calls):
            written: Generated = yield Generate(prompt=state, stop=self.profile.stop, max_tokens=self.max_tokens)
            state += written.text
            final = self._final(written)
            if final is not None:
                steps.append(Step(kind="final", text=final))
                return Answer(text=final, raw=state[len(start) :], steps=tuple(steps))
            subquestion = _subquestion(written)
            if subquestion is None:
                steps.append(Step(kind="unparsed", text=written.text.strip()))
                cut = written.finish == "length"
                raw = state[len(start) :]
                return Answer(text="", raw=raw, steps=tuple(steps), outcome="length" if cut else "unparsed")
            hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=subquestion, k=1, hidden=ask.hidden)
            steps.append(_step(subquestion, hits))
            state = f"{state.rstrip()}\n{FACT} {hits[0].text if hits else NOTHING}."
        return Answer(text="", raw=state[len(start) :], steps=tuple(steps), outcome="hop-cap")

    def _final(self, written: Generated) -> str | None:
        """The final answer, if its line is there and complete: a limit may have cut the last line."""
        lines = _lines(written.text)
        ended = written.finish != "length"
        candidates = (lines if ended else lines[:-1]) if self.profile.first_final else lines[-1:] if ended else []
        for line in candidates:
            if line.startswith(FINAL):
                return line.removeprefix(FINAL).strip()
        return None


def _subquestion(written: Generated) -> str | None:
    """The sub-question: the last line but one, above the tentative answer."""
    lines = _lines(written.text)
    if written.finish == "length" or len(lines) < 2 or not lines[-2].startswith(SUBQUESTION):
        return None
    return lines[-2].removeprefix(SUBQUESTION).strip()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _step(subquestion: str, hits: tuple[Hit, ...]) -> Step:
    return Step(
        kind="subquestion",
        text=subquestion,
        retrieved=tuple(hit.id for hit in hits),
        scores=tuple(hit.score for hit in hits),
    )
