"""PokeMQA's loop (Gu et al. 2024, section 3): the model takes a question apart, a detector says which edit answers.

::

    Question: ...                      given, after worked examples
    (the key entity: ...)              given, with the knowledge prompt
    Subquestion: ...                   the model
    Generated answer: ...              the edit in scope of the sub-question; if there is none, the model
    ... is: ...                        the model: the entity that this leads to
    Subquestion: ...                   the model, and so on
    Final answer: ...                  the model

Unlike MeLLo's there is no tentative answer and no self-check: what is in scope is true.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

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
from ke_plugin_pokemqa.turns import FACT, QUESTION, LoopProfile

ENTITY = "Key entity:"


@frozen(kw_only=True)
class PokemqaLoop:
    """The loop over one memory, whose search gives the one edit in scope or none.

    ``examples`` and ``knowing``: the worked examples without and with a key entity. ``entities``: question to what is
    said of its key entity; a question that is not there is asked plainly.
    """

    memory: FactMemory
    examples: str
    knowing: str = ""
    entities: Mapping[str, str] = field(factory=dict)
    way: LoopProfile
    calls: int
    max_tokens: int

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question; every way in which it can end otherwise is an outcome of the answer."""
        state = Transcript(self.start(ask))
        for _call in range(self.calls):
            written: Generated = yield Generate(prompt=state.text, stop=self.way.stop, max_tokens=self.max_tokens)
            asked = state.take(self.way.read(written), written)
            if isinstance(asked, Answer):
                return asked
            hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=asked, k=1, hidden=ask.hidden)
            state.tell(asked, hits, f"{FACT} {sentence(hits[0].text)}" if hits else self.way.unknown)
        return state.capped()

    def start(self, ask: Ask) -> str:
        """The worked examples and the question. Raises NoLikelihood."""
        if not isinstance(ask, Question):
            raise NoLikelihood("pokemqa answers in words and gives no log-probabilities")
        asked = f"{QUESTION} {ask.texts[0]}"
        known = self.entities.get(ask.texts[0])
        return f"{self.knowing}\n\n{asked}\n{ENTITY} {known}" if known else f"{self.examples}\n\n{asked}"
