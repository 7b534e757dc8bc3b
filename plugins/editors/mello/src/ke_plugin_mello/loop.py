"""MeLLo, section 5 of Zhong et al. 2023: the model decomposes a question, and a memory of edits provides facts.

::

    Question: ...                                          given, after four worked examples
    Subquestion: ...                                       the model
    Generated answer: ...                                  the model, from its own knowledge
    Retrieved fact: ...                                    the memory: the statement nearest to the sub-question
    ... so the answer here is: ...                         the model: does the fact contradict its answer?
    Subquestion: ...                                       the model, and so on
    Final answer: ...                                      the model

Only sub-questions and the final answer are parsed: the model compares a fact with its answer in the call that generates
the next sub-question. With ``decomposition=oracle``, the benchmark provides the sub-questions and, in place of the
model's tentative answers, the answers before the edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from ke_core.plugin import EditorRequest, Generate, Generated, Hit, Nearest, Question, SubQuestion
from ke_memory.plugin import SubQuestionLoop, Turn, sentence
from ke_plugin_mello.profiles import MelloProfile
from ke_plugin_mello.turns import FACT, SUBQUESTION, TENTATIVE, checked_answer


@frozen(kw_only=True)
class MelloLoop(SubQuestionLoop):
    """MeLLo's loop. ``examples``: the worked examples, without trailing whitespace."""

    name: ClassVar[str] = "mello"
    examples: str
    profile: MelloProfile

    def first_prompt(self, request: Question) -> str:
        """Return the worked examples and the question."""
        return f"{self.examples}\n\n{self.profile.question} {request.texts[0]}"

    def ask_model(self, text: str) -> Generate:
        """Return the request for the next turn."""
        profile = self.profile
        return Generate(prompt=text, stop=profile.stop, max_tokens=self.max_tokens, temperature=profile.temperature)

    def read(self, written: Generated) -> Turn:
        """Parse a turn as the profile does."""
        return self.profile.read(written)

    def look_up(self, subquestion: str, request: EditorRequest) -> Nearest:
        """Return the request for the nearest fact; there is no threshold."""
        return super().look_up(self.profile.lookup.replace("{}", subquestion), request)

    def fact_line(self, hits: Sequence[Hit]) -> str:
        """Return the retrieved fact, with one period if the profile has one."""
        line, fact = self.profile.fact, hits[0].text if hits else self.profile.nothing
        return f"{FACT} {line.replace('{}.', sentence(fact)) if '{}.' in line else line.replace('{}', fact)}"

    def hop_lines(self, given: SubQuestion, hits: Sequence[Hit]) -> str:
        """Return the sub-question, its answer before the edits, and the retrieved fact."""
        tentative = f"{TENTATIVE} {sentence(given.statement)}"
        return f"\n{SUBQUESTION} {given.question}\n{tentative}\n{self.fact_line(hits).rstrip()}\n"

    def hop_answer(self, text: str) -> str:
        """Parse the outcome of the comparison."""
        return checked_answer([text])
