"""Known facts: prompts with their correct objects, from a file in the published format."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.plugin import BadData, parse_json
from ke_weights.subject import encode

FIELDS = ("prompt", "subject", "attribute")
FORMAT = "a JSON list of records with prompt, subject and attribute, as in ROME's known_1000.json"


@frozen(kw_only=True)
class TraceFact:
    """``prompt`` ends directly before the object; ``attribute`` is the object."""

    id: str
    prompt: str
    subject: str
    attribute: str

    @property
    def span(self) -> tuple[int, int]:
        """Characters of the subject's first occurrence in the prompt, end exclusive."""
        start = self.prompt.index(self.subject)
        return start, start + len(self.subject)


@frozen(kw_only=True)
class TraceFacts:
    """Facts in the order of the file ``name``, and the SHA-256 of its content."""

    name: str
    facts: tuple[TraceFact, ...] = field(repr=False)
    sha256: str


def read_facts(path: Path) -> TraceFacts:
    """Read the facts of ``path``. Raises BadData with the file, the record and the field."""
    try:
        content = path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadData(f"cannot read facts {path}: {why}", hint=f"use {FORMAT}") from error
    raw = parse_json(content, f"facts {path}", hint=f"use {FORMAT}")
    if not isinstance(raw, list) or not raw:
        raise BadData(f"facts {path} are not a non-empty list", hint=f"use {FORMAT}")
    facts = tuple(_fact(record, number, f"record {number} of {path}") for number, record in enumerate(raw, start=1))
    return TraceFacts(name=path.name, facts=facts, sha256=hashlib.sha256(content).hexdigest())


def _fact(record: Any, number: int, where: str) -> TraceFact:
    if not isinstance(record, dict):
        raise BadData(f"{where} is not an object", hint=f"use {FORMAT}")
    for name in FIELDS:
        value = record.get(name)
        if not isinstance(value, str) or not value.strip():
            problem = "is missing" if name not in record else "is not a non-empty string"
            raise BadData(f"{where}: field {name!r} {problem}", hint=f"use {FORMAT}")
    prompt, subject = record["prompt"].rstrip(), record["subject"].strip()
    if subject not in prompt:
        raise BadData(
            f"{where}: subject {subject!r} is not in its prompt {prompt!r}",
            hint="write the subject in the prompt exactly as in the field",
        )
    return TraceFact(
        id=str(record.get("known_id", number)), prompt=prompt, subject=subject, attribute=record["attribute"].strip()
    )


def tokens_of(tokenizer: Any, fact: TraceFact) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return ids of the prompt as the model reads it (with BOS), and the subject's token range [b, e).

    A token belongs to the subject if it has one of its letters. The positions come from the tokenizer's offsets, so BOS
    and letters split over tokens cannot shift them. Raises BadData for a subject whose letters the tokenizer drops,
    KEError for a tokenizer without offsets.
    """
    ids, offsets = encode(tokenizer, fact.prompt)
    start, end = fact.span
    inside = [at for at, (low, high) in enumerate(offsets) if max(low, start) < min(high, end)]
    if not inside:
        raise BadData(
            f"fact {fact.id}: no token of {fact.prompt!r} belongs to its subject {fact.subject!r}",
            hint="remove the fact, or use other letters: the tokenizer drops these",
        )
    return tuple(ids), (inside[0], inside[-1] + 1)
