"""Random left contexts under which an edit must hold (MEMIT appendix B; ROME section 3.1, "sampling").

Sampled once by the unedited model, with seeds, and kept under everything that determines them: a list that
another model made, or another draw, changes every key and every z (pitfall E5).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from ke_core.data.codec import digest
from ke_core.data.facts import SLOT
from ke_core.errors import BadConfig, EditFailed
from ke_core.files import write_atomic
from ke_core.protocols import Session
from ke_core.requests import Generate, Generated
from ke_core.whitebox.subject import encode

WORDS = ("The", "Therefore", "Because", "I", "You")
TOP_K = 5
BARE = SLOT


def context_templates(session: Session[Any], *, length: int, words: Sequence[str] = WORDS) -> tuple[str, ...]:
    """``{}`` and, for each of ``words``, a text of ``length`` tokens sampled from it, followed by ``. {}``.

    ``length`` counts the word and a BOS, as published. Sampling: the 5 most probable tokens at temperature 1,
    seeded by the session's seed and the word.
    """
    tokenizer = session.model.tokenizer
    key = {
        "model": session.model.digest,
        "chat": session.model.chat,  # sampled as the model is run
        "seed": session.seed,
        "length": length,
        "words": list(words),
        "top_k": TOP_K,
    }
    path = session.artifacts.path("templates", key, ".json")
    if not path.exists():
        requests = [
            Generate(
                prompt=word,
                max_tokens=max(1, length - len(encode(tokenizer, word)[0])),
                temperature=1.0,
                top_k=TOP_K,
                seed=int(digest({"seed": session.seed, "word": word})[:8], 16),
            )
            for word in words
        ]
        made = [
            as_template(word, written) for word, written in zip(words, session.model.generate(requests), strict=True)
        ]
        write_atomic(path, json.dumps([BARE, *made], ensure_ascii=False).encode())
    found: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(found)


def as_template(word: str, written: Generated | Exception) -> str:
    """What was sampled after ``word``, normalised; braces would be taken for the slot and become spaces."""
    if isinstance(written, Exception):
        raise EditFailed(
            f"no context template could be sampled from {word!r}: {written}",
            hint="give the templates as a list, each ending in {}",
        ) from written
    text = unicodedata.normalize("NFKD", word + written.text).replace("\n\n", " ")
    return f"{text.replace('{', ' ').replace('}', ' ')}. {SLOT}"


def explicit_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """A list given by the user, the bare prompt put first. Raises BadConfig unless each ends in its one slot."""
    for template in templates:
        if template.count(SLOT) != 1 or not template.endswith(SLOT):
            raise BadConfig(f"template {template!r} needs exactly one {{}}, at its end", hint="write 'Some text. {}'")
    return (BARE, *(template for template in dict.fromkeys(templates) if template != BARE))
