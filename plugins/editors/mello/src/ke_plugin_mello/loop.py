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

from collections.abc import Sequence

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
)
from ke_memory.plugin import FactMemory, Transcript, sentence
from ke_plugin_mello.profiles import MelloProfile
from ke_plugin_mello.turns import FACT


@frozen(kw_only=True)
class MelloLoop:
    """The loop over one memory. ``examples``: the worked examples, without space at the end."""

    memory: FactMemory
    examples: str
    profile: MelloProfile
    calls: int
    max_tokens: int

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question; every way in which it can end otherwise is an outcome of the answer."""
        state = Transcript(self.start(ask))
        for _call in range(self.calls):
            written: Generated = yield self.ask_model(state.text, stop=self.profile.stop)
            asked = state.take(self.profile.read(written), written)
            if isinstance(asked, Answer):
                return asked
            hits: tuple[Hit, ...] = yield self.look_up(asked, ask)
            state.tell(asked, hits, self.fact(hits))
        return state.capped()

    def start(self, ask: Ask) -> str:
        """The worked examples and the question. Raises NoLikelihood."""
        if not isinstance(ask, Question):
            raise NoLikelihood("mello answers in words and gives no log-probabilities")
        return f"{self.examples}\n\n{self.profile.question} {ask.texts[0]}"

    def ask_model(self, state: str, *, stop: tuple[str, ...]) -> Generate:
        """What the model is asked to continue."""
        return Generate(prompt=state, stop=stop, max_tokens=self.max_tokens, temperature=self.profile.temperature)

    def look_up(self, subquestion: str, ask: Ask) -> Nearest:
        """The nearest fact; there is no threshold."""
        text = self.profile.lookup.replace("{}", subquestion)
        return Nearest(memory=self.memory, text=text, k=1, hidden=ask.hidden)

    def fact(self, hits: Sequence[Hit]) -> str:
        """The line that the memory writes, with one full stop where the profile has one."""
        shown, fact = self.profile.fact, hits[0].text if hits else self.profile.nothing
        return f"{FACT} {shown.replace('{}.', sentence(fact)) if '{}.' in shown else shown.replace('{}', fact)}"
