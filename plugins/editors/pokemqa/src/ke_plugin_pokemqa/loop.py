"""PokeMQA's loop (Gu et al. 2024, section 3): the model decomposes a question, and a detector selects the edits.

::

    Question: ...                      given, after worked examples
    (the key entity: ...)              given, with the knowledge prompt
    Subquestion: ...                   the model
    Generated answer: ...              the edit in scope of the sub-question; if there is none, the model
    ... is: ...                        the model: the entity that this leads to
    Subquestion: ...                   the model, and so on
    Final answer: ...                  the model

Unlike in MeLLo, there is no tentative answer and no self-check: an edit in scope is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from attrs import field, frozen

from ke_core.plugin import Generate, Generated, Hit, Question, SubQuestion
from ke_memory.plugin import SubQuestionLoop, Turn, sentence
from ke_plugin_pokemqa.turns import FACT, QUESTION, SUBQUESTION, LoopProfile, reached_entity

ENTITY = "Key entity:"


@frozen(kw_only=True)
class PokemqaLoop(SubQuestionLoop):
    """PokeMQA's loop. The memory's search returns the one edit in scope, or none.

    ``examples`` and ``knowledge_examples``: the worked examples without and with a key entity. ``entities``:
    description of the key entity by question. A question without one uses ``examples``.
    """

    name: ClassVar[str] = "pokemqa"
    examples: str
    knowledge_examples: str = ""
    entities: Mapping[str, str] = field(factory=dict)
    profile: LoopProfile

    def first_prompt(self, request: Question) -> str:
        """Return the worked examples and the question."""
        question = f"{QUESTION} {request.texts[0]}"
        known = self.entities.get(request.texts[0])
        return (
            f"{self.knowledge_examples}\n\n{question}\n{ENTITY} {known}" if known else f"{self.examples}\n\n{question}"
        )

    def ask_model(self, text: str) -> Generate:
        """Return the request for the next turn."""
        return Generate(prompt=text, stop=self.profile.stop, max_tokens=self.max_tokens)

    def read(self, written: Generated) -> Turn:
        """Parse a turn as the profile does."""
        return self.profile.read(written)

    def fact_line(self, hits: Sequence[Hit]) -> str:
        """Return the edit in scope; without one, the start of the model's own answer."""
        return f"{FACT} {sentence(hits[0].text)}" if hits else self.profile.unknown

    def hop_lines(self, given: SubQuestion, hits: Sequence[Hit]) -> str:
        """Return the sub-question, and the edit in scope or the answer before the edits."""
        return f"\n{SUBQUESTION} {given.question}\n{FACT} {sentence(hits[0].text if hits else given.statement)}\n"

    def hop_answer(self, text: str) -> str:
        """Parse the entity that the fact leads to."""
        return reached_entity([text])
