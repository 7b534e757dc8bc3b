"""The eight prompts: worked examples, then the question, with named slots."""

from __future__ import annotations

import re

from attrs import frozen

from ke_core.plugin import BadConfig, prompt_text

SLOTS = {
    "think": ("question",),
    "entity": ("question",),
    "new": ("first", "second"),
    "delete": ("first", "second"),
    "exists": ("sentence", "entity"),
    "same": ("first", "second"),
    "shared": ("first", "second"),
    "different": ("first", "second"),
}
"""Each prompt, and the slots that its text must contain exactly once."""


@frozen
class SlotTemplate:
    """A text with slots. Inserted text is not searched for slots."""

    text: str

    def __call__(self, **words: str) -> str:
        """Return the text with ``words`` in its slots."""
        return re.sub(r"\{(\w+)\}", lambda slot: words.get(slot[1], slot[0]), self.text)


def read_prompts(chosen: str) -> dict[str, SlotTemplate]:
    """Return every prompt by name, from this package or a folder. Raises BadConfig for an unsuitable file."""
    return {name: _read(name, chosen) for name in SLOTS}


def _read(name: str, chosen: str) -> SlotTemplate:
    text = prompt_text("ke_plugin_deepedit", f"{name}.txt", chosen, option="deepedit.prompts")
    missing = [slot for slot in SLOTS[name] if text.count(f"{{{slot}}}") != 1]
    if missing:
        raise BadConfig(
            f"deepedit.prompts: {name}.txt must contain {{{missing[0]}}} exactly once",
            hint="see the README of ke-plugin-deepedit for the slots of each file",
        )
    return SlotTemplate(text)
