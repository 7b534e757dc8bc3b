"""A judge: an answer is right if it begins with the first word of a gold name."""

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
        """Return right, stale (correct before the edit) or wrong."""
        reply = item.answer
        if reply.outcome != "answered" or not reply.text.strip():
            return Verdict.WRONG
        if begins_with(reply.text, item.query.gold):
            return Verdict.RIGHT
        return Verdict.STALE if item.query.stale and begins_with(reply.text, item.query.stale) else Verdict.WRONG


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
