"""The eight prompts: worked examples, then the question, with named slots for what is asked about."""

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
"""Each prompt, and the slots that its text must have once each."""


@frozen
class SlotTemplate:
    """A text with slots; what is put into them is never read for slots again."""

    text: str

    def __call__(self, **words: str) -> str:
        """The text with ``words`` in its slots."""
        return re.sub(r"\{(\w+)\}", lambda slot: words.get(slot[1], slot[0]), self.text)


def read_prompts(chosen: str) -> dict[str, SlotTemplate]:
    """Every prompt by name: this package's, or those of a folder. Raises BadConfig where a file does not fit."""
    return {name: _read(name, chosen) for name in SLOTS}


def _read(name: str, chosen: str) -> SlotTemplate:
    text = prompt_text("ke_plugin_deepedit", f"{name}.txt", chosen, option="deepedit.prompts")
    missing = [slot for slot in SLOTS[name] if text.count(f"{{{slot}}}") != 1]
    if missing:
        raise BadConfig(
            f"deepedit.prompts: {name}.txt must have {{{missing[0]}}} once",
            hint="see the README of ke-plugin-deepedit for the slots of each file",
        )
    return SlotTemplate(text)
