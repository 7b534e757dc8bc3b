"""A judge: an answer is right if it begins with the first word of a gold name, unsure if several names are required."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Gold, Item, Judge, JudgeSpec, Judgment, Session, Verdict, hookimpl


@frozen(kw_only=True)
class FirstWordConfig:
    """No options."""


class FirstWord:
    """Judges by the first word. An empty or failed answer is never right."""

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment per item, in order."""
        return [Judgment(verdict=self.verdict(item)) for item in items]

    def verdict(self, item: Item) -> Verdict:
        """Return right, pre-edit (correct before the edit), wrong or unsure."""
        reply, gold, pre_edit = item.answer, item.query.gold, item.query.pre_edit
        if reply.outcome != "answered" or not reply.text.strip():
            return Verdict.WRONG
        if requires_several(gold):
            return Verdict.UNSURE  # one word cannot name all of them
        if begins_with(reply.text, gold):
            return Verdict.RIGHT
        is_pre_edit = pre_edit is not None and not requires_several(pre_edit) and begins_with(reply.text, pre_edit)
        return Verdict.PRE_EDIT if is_pre_edit else Verdict.WRONG


def requires_several(gold: Gold) -> bool:
    """Return whether one gold name is not enough."""
    return gold.require in ("all", "ordered") and len(gold.entities) > 1


def begins_with(text: str, gold: Gold) -> bool:
    """Return whether the first word of the text is the first word of a gold name."""
    return text.split(maxsplit=1)[0].strip(".,") in {
        name.split()[0] for entity in gold.entities for name in entity.names
    }


def build(_config: FirstWordConfig) -> Judge:
    """Build the judge when a command uses it."""
    return FirstWord()


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register the judge."""
    return [JudgeSpec(name="first-word", summary="compare first words", config=FirstWordConfig, build=build)]
