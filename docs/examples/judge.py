"""A judge: an answer is right if it begins with the first word of a gold name."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Gold, Item, Judge, JudgeSpec, Judgment, Session, Verdict, hookimpl


@frozen(kw_only=True)
class FirstWordConfig:
    """No options."""


class FirstWord:
    """Says what answers are worth; an unparsed one is never right."""

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """One judgment an item, in order."""
        return [Judgment(verdict=self.verdict(item)) for item in items]

    def verdict(self, item: Item) -> Verdict:
        """Right, stale (it was right before the edit) or wrong."""
        reply = item.answer
        if reply.outcome != "answered" or not reply.text.strip():
            return Verdict.WRONG
        if begins_with(reply.text, item.query.gold):
            return Verdict.RIGHT
        return Verdict.STALE if item.query.stale and begins_with(reply.text, item.query.stale) else Verdict.WRONG


def begins_with(text: str, gold: Gold) -> bool:
    """Whether the text's first word is the first word of some gold name."""
    return text.split(maxsplit=1)[0].strip(".,") in {
        name.split()[0] for entity in gold.entities for name in entity.names
    }


def build(_config: FirstWordConfig) -> Judge:
    """Built when the judge is used."""
    return FirstWord()


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer the judge."""
    return [JudgeSpec(name="first-word", summary="compare first words", config=FirstWordConfig, build=build)]
