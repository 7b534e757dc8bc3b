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

from collections.abc import Mapping, Sequence
from typing import ClassVar

from attrs import field, frozen

from ke_core.plugin import Generate, Generated, Hit, Question, SubQuestion
from ke_memory.plugin import SubQuestionLoop, Turn, sentence
from ke_plugin_pokemqa.turns import FACT, QUESTION, SUBQUESTION, LoopProfile, reached

ENTITY = "Key entity:"


@frozen(kw_only=True)
class PokemqaLoop(SubQuestionLoop):
    """PokeMQA's loop. The memory's search returns the one edit in scope, or none.

    ``examples`` and ``knowing``: the worked examples without and with a key entity. ``entities``: question to a text
    about its key entity. A question without one uses ``examples``.
    """

    name: ClassVar[str] = "pokemqa"
    examples: str
    knowing: str = ""
    entities: Mapping[str, str] = field(factory=dict)
    way: LoopProfile

    def first_prompt(self, ask: Question) -> str:
        """Return the worked examples and the question."""
        asked = f"{QUESTION} {ask.texts[0]}"
        known = self.entities.get(ask.texts[0])
        return f"{self.knowing}\n\n{asked}\n{ENTITY} {known}" if known else f"{self.examples}\n\n{asked}"

    def ask_model(self, text: str) -> Generate:
        """Return the request for the next turn."""
        return Generate(prompt=text, stop=self.way.stop, max_tokens=self.max_tokens)

    def read(self, written: Generated) -> Turn:
        """Read a turn as the profile does."""
        return self.way.read(written)

    def fact_line(self, hits: Sequence[Hit]) -> str:
        """Return the edit in scope; without one, the profile's beginning of the model's own answer."""
        return f"{FACT} {sentence(hits[0].text)}" if hits else self.way.unknown

    def hop_lines(self, given: SubQuestion, hits: Sequence[Hit]) -> str:
        """Return the sub-question, and the edit in scope or the answer that was right before the edits."""
        return f"\n{SUBQUESTION} {given.question}\n{FACT} {sentence(hits[0].text if hits else given.statement)}\n"

    def hop_answer(self, text: str) -> str:
        """Read the entity that the fact leads to."""
        return reached([text])
