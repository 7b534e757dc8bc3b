"""Multiple choice for models that only generate: a question with lettered options, and the letter in the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from ke_core.plugin import Decoding, digest

GENERATED = "mcq-generated"
"""The metric of these answers. It has a name of its own, because it is not comparable with log-probabilities."""
KEPT: Mapping[str, str] = {"acc": GENERATED, "f1": f"{GENERATED}-f1", "mcc": f"{GENERATED}-mcc"}
"""The harness's metrics that depend on the choice only. The others need log-probabilities."""
DECODING = Decoding(max_tokens=16, stop=())


def choice_prompt(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the question for (context, continuation) pairs: which continuation, or which text of several contexts."""
    contexts = {context for context, _text in pairs}
    options = [text.strip() if len(contexts) == 1 else f"{context}{text}" for context, text in pairs]
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(ascii_uppercase, options, strict=False))
    if len(contexts) > 1:
        return f"Which text is right?\n{listed}\nAnswer with the letter of the text:"
    return (
        f"{pairs[0][0].rstrip()}\n\nWhich option continues this text?\n{listed}\nAnswer with the letter of the option:"
    )


def chosen(text: str, name: str, count: int) -> int:
    """Return the place of the option whose letter ``text`` names first, if possible one before punctuation or the end.

    A text without one counts as a random choice, which depends on the request's ``name`` only. Log-probabilities always
    choose an option too.
    """
    letters = ascii_uppercase[:count]
    letter = rf"(?<!\w)[{letters}](?!\w)"
    found = re.search(rf"{letter}(?=\s*(?:[.):\]*]|\Z))", text) or re.search(letter, text)
    return letters.index(found[0]) if found else int(digest([name])[:8], 16) % count
