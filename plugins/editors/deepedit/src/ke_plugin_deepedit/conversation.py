"""The requests of the search to the model: entities, a thought without its new entity, and yes or no.

Every request counts against one limit. Equal greedy prompts are answered from the engine's cache.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

from attrs import define, field

from ke_core.plugin import Generate, Generated, Procedure, Step
from ke_memory.plugin import without_period
from ke_plugin_deepedit.prompts import SlotTemplate

WORDS = 32  # tokens of a name, or of a search query
JUDGMENT = 4  # tokens of a yes or no
LINE = ("\n",)


class OutOfCalls(Exception):
    """The limit on model calls is reached."""


@define(kw_only=True)
class Conversation:
    """The requests about one question. ``retries``: sampled repetitions of an unparsable judgment."""

    prompts: Mapping[str, SlotTemplate]
    calls: int
    retries: int
    notes: list[Step] = field(factory=list)

    def generate(
        self, prompt: str, *, max_tokens: int, stop: tuple[str, ...] = LINE, temperature: float = 0.0
    ) -> Procedure[Generated]:
        """Return the model's continuation. Raises OutOfCalls."""
        if not self.calls:
            raise OutOfCalls
        self.calls -= 1
        written: Generated = yield Generate(prompt=prompt, stop=stop, max_tokens=max_tokens, temperature=temperature)
        return written

    def thought(self, question: str, written: str, stop: tuple[str, ...], max_tokens: int) -> Procedure[Generated]:
        """Return the next thought after what is ``written`` after the question."""
        prompt = self.prompts["think"](question=question) + written
        return (yield from self.generate(prompt, max_tokens=max_tokens, stop=stop))

    def note(self, kind: str, text: str) -> tuple[Step, ...]:
        """Add a note. Return all notes."""
        self.notes.append(Step(kind=kind, text=text))
        return tuple(self.notes)

    def entity(self, question: str) -> Procedure[str]:
        """Return the entity that the question starts from."""
        return (yield from self._words("entity", question=question))

    def new(self, first: str, second: str) -> Procedure[str]:
        """Return the entity in ``second`` that is not in ``first``."""
        return (yield from self._words("new", first=first, second=second))

    def without_new(self, first: str, second: str) -> Procedure[str]:
        """Return ``second`` without its new entity, to search with; ``second`` if the model writes nothing."""
        return (yield from self._words("delete", first=first, second=second)) or second

    def exists(self, entity: str, sentence: str) -> Procedure[bool]:
        """Return whether the sentence names the entity; False for an empty entity."""
        if not entity:
            return False
        if entity.casefold() in sentence.casefold():
            return True
        return (yield from self._holds("exists", entity=entity, sentence=sentence))

    def conflict(self, fact: str, thought: str) -> Procedure[bool]:
        """Return whether the fact contradicts the thought: same type, a shared entity, and a different one."""
        for judgment in ("same", "shared", "different"):
            if not (yield from self._holds(judgment, first=fact, second=thought)):
                return False
        return True

    def _words(self, name: str, **slots: str) -> Procedure[str]:
        written = yield from self.generate(self.prompts[name](**slots), max_tokens=WORDS)
        return without_period(written.text)

    def _holds(self, name: str, **slots: str) -> Procedure[bool]:
        """Return the model's yes or no. An unparsable judgment counts as no, and is noted."""
        prompt = self.prompts[name](**slots)
        for temperature in (0.0, *[1.0] * self.retries):
            written = yield from self.generate(prompt, max_tokens=JUDGMENT, temperature=temperature)
            verdict = yes_or_no(written.text)
            if verdict is not None:
                return verdict
        self.note("unreadable", f"{name}: {written.text.strip()}")
        return False


def yes_or_no(text: str) -> bool | None:
    """Parse yes or no, ignoring case and punctuation; None for any other text."""
    return {"yes": True, "no": False}.get(text.strip(string.punctuation + string.whitespace).casefold())
