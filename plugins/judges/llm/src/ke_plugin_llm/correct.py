"""Labels of a language model for answers: right, pre-edit, wrong or abstained.

One request for each answer: question, right answer, pre-edit answer and the answer -> label. An output without a valid
label becomes ``answer-unsure``, and the verdict is UNSURE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from attrs import frozen

from ke_core.plugin import (
    Entity,
    Finding,
    Generate,
    Generated,
    Gold,
    Item,
    Judgment,
    Procedure,
    Session,
    Verdict,
    prompt_text,
)
from ke_plugin_llm import ABSTAINED, ANSWER_UNSURE, PRE_EDIT, RIGHT, WRONG, CorrectConfig
from ke_plugin_llm.asking import answered, answers, filled, labeled

PACKAGE, NAME = "ke_plugin_llm", "llm-correct"
STOP = ("\nQuestion:",)
"""Start of the next example, which a model may append."""
NO_PRE_EDIT = "none"
VERDICTS = {RIGHT: Verdict.RIGHT, PRE_EDIT: Verdict.PRE_EDIT, WRONG: Verdict.WRONG, ABSTAINED: Verdict.WRONG}


@frozen(kw_only=True)
class CorrectnessJudge:
    """Sends one request for each answer to the session's model."""

    config: CorrectConfig
    prompt: str

    @classmethod
    def of(cls, config: CorrectConfig) -> Self:
        """Create the judge and read its prompt. Raises BadConfig."""
        prompt = prompt_text(PACKAGE, "correct.txt", config.prompts, option="llm-correct.prompts")
        return cls(config=config, prompt=prompt)

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order.

        Raises KEError if the model fails: there is no fallback rule.
        """
        asked = {str(at): self._label(item) for at, item in enumerate(items) if answered(item)}
        found = answers(session, asked, judge=NAME, unsure=lambda _name: ANSWER_UNSURE)
        return [_judgment(found.get(str(at)) or _unanswered(item)) for at, item in enumerate(items)]

    def _label(self, item: Item) -> Procedure[Finding]:
        """Return the label of one answer. Without another pre-edit answer, ``pre-edit`` is not a valid label."""
        answer = item.answer.text
        pre_edit = None if item.query.pre_edit == item.query.gold else item.query.pre_edit
        prompt = filled(
            self.prompt,
            question=item.query.texts[0],
            right=named(item.query.gold),
            pre_edit=NO_PRE_EDIT if pre_edit is None else named(pre_edit),
            answer=answer,
        )
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.config.tokens, stop=STOP)
        valid = [label for label in VERDICTS if label != PRE_EDIT or pre_edit is not None]
        return labeled(answer, written.text, valid, ANSWER_UNSURE)


def named(gold: Gold) -> str:
    """Return an answer in words, with the aliases of each entity in parentheses."""

    def words(entity: Entity) -> str:
        others = [alias for alias in entity.aliases if alias != entity.label]
        return f"{entity.label} (also: {'; '.join(others)})" if others else entity.label

    return gold.words(words)


def _unanswered(item: Item) -> Finding:
    return Finding(item=item.answer.outcome, label=WRONG, note="there is no answer")


def _judgment(finding: Finding) -> Judgment:
    return Judgment(verdict=VERDICTS.get(finding.label, Verdict.UNSURE), findings=(finding,))
