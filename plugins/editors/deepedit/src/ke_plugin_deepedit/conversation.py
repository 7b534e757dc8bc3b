"""What the search asks of the model: entities, a thought without its news, and yes or no.

Every question put to the model counts against one bound, whoever asks. Equal greedy prompts are answered from the
engine's cache.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

from attrs import define, field

from ke_core.plugin import Generate, Generated, Procedure, Step
from ke_memory.plugin import without_period
from ke_plugin_deepedit.prompts import SlotTemplate

WORDS = 32  # tokens of a name, or of a thought without one
JUDGMENT = 4  # tokens of a yes or no
LINE = ("\n",)


class OutOfCalls(Exception):
    """The bound on model calls is reached."""


@define(kw_only=True)
class Conversation:
    """One question's talk with the model. ``retries``: how often an unreadable judgment is asked again, sampled."""

    prompts: Mapping[str, SlotTemplate]
    calls: int
    retries: int
    notes: list[Step] = field(factory=list)

    def say(
        self, prompt: str, *, max_tokens: int, stop: tuple[str, ...] = LINE, temperature: float = 0.0
    ) -> Procedure[Generated]:
        """The model's continuation. Raises OutOfCalls."""
        if not self.calls:
            raise OutOfCalls
        self.calls -= 1
        written: Generated = yield Generate(prompt=prompt, stop=stop, max_tokens=max_tokens, temperature=temperature)
        return written

    def thought(self, question: str, written: str, stop: tuple[str, ...], max_tokens: int) -> Procedure[Generated]:
        """The next thought after what is ``written`` under the question."""
        prompt = self.prompts["think"](question=question) + written
        return (yield from self.say(prompt, max_tokens=max_tokens, stop=stop))

    def note(self, kind: str, text: str) -> tuple[Step, ...]:
        """One more note, and all of them."""
        self.notes.append(Step(kind=kind, text=text))
        return tuple(self.notes)

    def entity(self, question: str) -> Procedure[str]:
        """The entity that the question starts from."""
        return (yield from self._words("entity", question=question))

    def new(self, first: str, second: str) -> Procedure[str]:
        """The entity of ``second`` that ``first`` does not have."""
        return (yield from self._words("new", first=first, second=second))

    def without_new(self, first: str, second: str) -> Procedure[str]:
        """``second`` without that entity: what to look up. Where the model writes nothing, ``second`` itself."""
        return (yield from self._words("delete", first=first, second=second)) or second

    def exists(self, entity: str, sentence: str) -> Procedure[bool]:
        """Whether the sentence names the entity. An entity without a name is in no sentence."""
        if not entity:
            return False
        if entity.casefold() in sentence.casefold():
            return True
        return (yield from self._holds("exists", entity=entity, sentence=sentence))

    def conflict(self, fact: str, thought: str) -> Procedure[bool]:
        """Whether the fact says otherwise than the thought: same kind, a shared entity, and a different one."""
        for judgment in ("same", "shared", "different"):
            if not (yield from self._holds(judgment, first=fact, second=thought)):
                return False
        return True

    def _words(self, name: str, **slots: str) -> Procedure[str]:
        written = yield from self.say(self.prompts[name](**slots), max_tokens=WORDS)
        return without_period(written.text)

    def _holds(self, name: str, **slots: str) -> Procedure[bool]:
        """The model's yes or no; what is neither, after all retries, is a no, and noted."""
        prompt = self.prompts[name](**slots)
        for temperature in (0.0, *[1.0] * self.retries):
            written = yield from self.say(prompt, max_tokens=JUDGMENT, temperature=temperature)
            verdict = yes_or_no(written.text)
            if verdict is not None:
                return verdict
        self.note("unreadable", f"{name}: {written.text.strip()}")
        return False


def yes_or_no(text: str) -> bool | None:
    """Yes or no and nothing else, whatever its case and punctuation; None for any other text."""
    return {"yes": True, "no": False}.get(text.strip(string.punctuation + string.whitespace).casefold())
