"""The demonstrations that can be shown, found by meaning and by their words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from attrs import define, field, frozen

from ke_core.plugin import Artifacts, Encoder
from ke_memory.plugin import FactMemory, is_intact
from ke_plugin_ike.records import IkeRecord

Kind = Literal["copy", "update", "retain"]
KINDS: tuple[Kind, ...] = ("copy", "update", "retain")
WORD = re.compile(r"\w+")


@frozen(kw_only=True)
class Demonstration:
    """``answer`` follows ``prompt`` after ``fact`` was told; ``record`` is the place of its record in the corpus."""

    record: int
    kind: Kind
    fact: str
    prompt: str
    answer: str


@define(kw_only=True, eq=False)
class DemonstrationCorpus:
    """Every demonstration by id, and a memory that finds the nearest ones (fact and prompt together, as published).

    Nothing of it rests on an edit: all groups of edits that stand side by side share one, so it is only read.
    """

    records: Sequence[IkeRecord]
    encoder: Encoder
    artifacts: Artifacts
    demonstrations: dict[str, Demonstration] = field(init=False)
    memory: FactMemory = field(init=False)
    sha256: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        each = (made for number, record in enumerate(self.records) for made in demonstrations(number, record))
        self.demonstrations = {str(place): demonstration for place, demonstration in enumerate(each)}
        self.sha256 = hashlib.sha256(repr(self.records).encode()).hexdigest()
        self.memory = self._remembered()

    @cached_property
    def widest(self) -> int:
        """The most demonstrations of one record."""
        return max(Counter(each.record for each in self.demonstrations.values()).values())

    def of(self, record: int, kind: Kind, barred: frozenset[str]) -> list[Demonstration]:
        """The demonstrations of that kind that a record has, without those that are barred."""
        return [self.demonstrations[name] for name in self.names(record, kind) if name not in barred]

    def names(self, record: int, kind: Kind) -> Sequence[str]:
        """The ids of the demonstrations of that kind that a record has."""
        return self._by_kind[record, kind]

    @cached_property
    def by_word(self) -> dict[str, dict[str, str]]:
        """Demonstrations and all that they say, by each word of it."""
        found: dict[str, dict[str, str]] = {}
        for name, each in self.demonstrations.items():
            text = plain(f"{each.fact} {each.prompt} {each.answer}")
            for word in text.split():
                found.setdefault(word, {})[name] = text
        return found

    @cached_property
    def by_rarest(self) -> dict[str, dict[str, set[str]]]:
        """Subjects and prompts, and the demonstrations that have them, by the word of theirs that the fewest have."""
        owners: dict[str, set[str]] = {}
        for name, each in self.demonstrations.items():
            for text in (each.prompt, self.records[each.record].subject):
                owners.setdefault(plain(text), set()).add(name)
        uses = Counter(word for text in owners for word in set(text.split()))
        found: dict[str, dict[str, set[str]]] = {}
        for text, names in owners.items():
            if words := text.split():
                found.setdefault(min(words, key=lambda word: uses[word]), {})[text] = names
        return found

    @cached_property
    def _by_kind(self) -> dict[tuple[int, Kind], list[str]]:
        found: dict[tuple[int, Kind], list[str]] = {}
        for name, each in self.demonstrations.items():
            found.setdefault((each.record, each.kind), []).append(name)
        return found

    def _remembered(self) -> FactMemory:
        """The memory of all demonstrations; embedded once, and kept for the next edits."""
        key = {"encoder": self.encoder.id, "records_sha256": self.sha256}
        path: Path = self.artifacts.path("ike-demonstrations", key, ".safetensors")
        if is_intact(path):
            return FactMemory.load(path, self.encoder)
        memory = FactMemory(
            self.encoder, ((name, f"{each.fact} {each.prompt}") for name, each in self.demonstrations.items())
        )
        memory.save(path)
        return memory


def demonstrations(number: int, record: IkeRecord) -> Iterator[Demonstration]:
    """Every demonstration that a record makes."""

    def one(kind: Kind, prompt: str, answer: str) -> Demonstration:
        return Demonstration(record=number, kind=kind, fact=record.fact, prompt=prompt, answer=answer)

    yield one("copy", record.prompt, record.object)
    for paraphrase in record.paraphrases:
        yield one("update", paraphrase, record.object)
    for prompt, object_ in record.neighbors:
        yield one("retain", prompt, object_)


def plain(text: str) -> str:
    """The words, a space before and after each, so that one text in another is whole words in others."""
    return f" {' '.join(WORD.findall(text.casefold()))} "
