"""Random left contexts for which an edit must hold (MEMIT appendix B; ROME section 3.1, "sampling").

They are sampled once by the unedited model, with seeds, and cached under everything that determines them: another list
would change every key and every z. They are always plain text: with a chat template, the model would answer the first
word instead of continuing it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ke_core.plugin import (
    SLOT,
    BadConfig,
    BadData,
    EditFailed,
    Generate,
    Generated,
    Session,
    digest,
    read_value,
    warn,
    write_value,
)
from ke_weights.subject import encode

WORDS = ("The", "Therefore", "Because", "I", "You")
TOP_K = 5
BARE = SLOT
KIND = "templates"  # the key has no version: a change of the sampling needs a new kind


def context_templates(session: Session[Any], *, lengths: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Return ``{}`` and sampled left contexts, each followed by ``. {}``.

    ``lengths`` are pairs (tokens, number of texts): MEMIT uses five of ten tokens, ROME ten of five and ten of ten. The
    texts begin with five words in turn. Their tokens, including the word and a BOS, are counted as published. Sampling
    uses the 5 most probable tokens at temperature 1, seeded by the session's seed, the word, and the number of the
    text.
    """
    model = session.model.plain
    tokenizer = model.tokenizer
    key = {
        "model": model.digest,
        "chat": False,  # always; kept so that older lists are found
        "seed": session.seed,
        "lengths": [list(pair) for pair in lengths],
        "words": list(WORDS),
        "top_k": TOP_K,
    }
    path = session.artifacts.path(KIND, key, ".json")
    found = _read(path)
    if found is None:
        turns = [(length, at) for length, count in lengths for at in range(count)]
        wanted = [(WORDS[at % len(WORDS)], length, at // len(WORDS)) for length, at in turns]
        requests = [_request(tokenizer, session.seed, *one) for one in wanted]
        written = model.generate(requests)
        made = [as_template(word, text) for (word, _length, _turn), text in zip(wanted, written, strict=True)]
        found = (BARE, *made)
        write_value(path, list(found))
    return found


def _read(path: Path) -> tuple[str, ...] | None:
    """Return the list in a file; None if it is missing or damaged."""
    try:
        found = read_value(path, hint="it will be sampled again")
    except BadData as error:
        warn(error)
        return None
    return None if found is None else tuple(found)


def _request(tokenizer: Any, seed: int, word: str, length: int, turn: int) -> Generate:
    return Generate(
        prompt=word,
        max_tokens=max(1, length - len(encode(tokenizer, word)[0])),
        temperature=1.0,
        top_k=TOP_K,
        seed=int(digest({"seed": seed, "word": word} | ({"turn": turn} if turn else {}))[:8], 16),
    )


def as_template(word: str, written: Generated | Exception) -> str:
    """Return the sampled text after ``word``, normalized; braces would look like the slot and become spaces."""
    if isinstance(written, Exception):
        raise EditFailed(
            f"no context template could be sampled from {word!r}: {written}",
            hint="set the option templates to a list, each ending in {}",
        ) from written
    text = unicodedata.normalize("NFKD", word + written.text).replace("\n\n", " ")
    return f"{text.replace('{', ' ').replace('}', ' ')}. {SLOT}"


def explicit_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """Return the user's templates, bare prompt first. Raises BadConfig unless each ends in its one slot."""
    for template in templates:
        if template.count(SLOT) != 1 or not template.endswith(SLOT):
            raise BadConfig(
                f"template {template!r} needs exactly one {{}}, at its end", hint="write it like 'Some text. {}'"
            )
    return (BARE, *(template for template in dict.fromkeys(templates) if template != BARE))
