"""Known facts: prompts with their correct objects, from a file in the published format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.app import SourceLine, read_lines, text_field
from ke_core.plugin import BadData, sha256_of
from ke_weights.subject import locate_span

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
    facts = tuple(_fact(raw, place) for raw, place in read_lines(path))
    if not facts:
        raise BadData(f"facts {path} are empty", hint=f"use {FORMAT}")
    return TraceFacts(name=path.name, facts=facts, sha256=sha256_of(path))


def _fact(raw: Mapping[str, Any], place: SourceLine) -> TraceFact:
    prompt, subject, attribute = (text_field(raw, name, place, needed=True) for name in FIELDS)
    if subject not in prompt:
        raise place.wrong("subject", f"{subject!r} is not in its prompt {prompt!r}", hint="spell both in the same way")
    name = text_field(raw, "known_id", place) or str(place.line)
    return TraceFact(id=name, prompt=prompt, subject=subject, attribute=attribute)


def tokens_of(tokenizer: Any, fact: TraceFact) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return ids of the prompt as the model reads it (with BOS), and the subject's token range [b, e).

    Raises KEError for a subject whose letters the tokenizer drops, and for a tokenizer without offsets.
    """
    ids, subject = locate_span(tokenizer, fact.prompt, fact.span)
    return ids, (subject.start, subject.stop)
