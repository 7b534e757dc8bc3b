"""The available demonstrations, found by embedding and by their words."""

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
    """``answer`` follows ``prompt`` after ``fact``; ``record`` is the index of its record in the corpus."""

    record: int
    kind: Kind
    fact: str
    prompt: str
    answer: str


@define(kw_only=True, eq=False)
class DemonstrationCorpus:
    """Every demonstration by id, and a memory that finds the nearest ones by fact and prompt, as published.

    It does not depend on edits and is read-only: all concurrent groups of edits share one.
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
        self.memory = self._load_memory()

    @cached_property
    def widest(self) -> int:
        """Maximum number of demonstrations of a record."""
        return max(Counter(each.record for each in self.demonstrations.values()).values())

    def of(self, record: int, kind: Kind, excluded: frozenset[str]) -> list[Demonstration]:
        """Return a record's demonstrations of a kind, without the excluded ones."""
        return [self.demonstrations[name] for name in self.names(record, kind) if name not in excluded]

    def names(self, record: int, kind: Kind) -> Sequence[str]:
        """Return the ids of a record's demonstrations of a kind."""
        return self._by_kind[record, kind]

    @cached_property
    def by_word(self) -> dict[str, dict[str, str]]:
        """Demonstrations and their complete text, by each of their words."""
        found: dict[str, dict[str, str]] = {}
        for name, each in self.demonstrations.items():
            text = plain(f"{each.fact} {each.prompt} {each.answer}")
            for word in text.split():
                found.setdefault(word, {})[name] = text
        return found

    @cached_property
    def by_rarest(self) -> dict[str, dict[str, set[str]]]:
        """Subjects and prompts with their demonstrations, by the rarest word of each."""
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

    def _load_memory(self) -> FactMemory:
        """Return the memory of all demonstrations, cached on disk."""
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
    """Yield every demonstration of a record."""

    def one(kind: Kind, prompt: str, answer: str) -> Demonstration:
        return Demonstration(record=number, kind=kind, fact=record.fact, prompt=prompt, answer=answer)

    yield one("copy", record.prompt, record.object)
    for paraphrase in record.paraphrases:
        yield one("update", paraphrase, record.object)
    for prompt, object_ in record.neighbors:
        yield one("retain", prompt, object_)


def plain(text: str) -> str:
    """Return the words with a space before and after each, so that substrings are whole words."""
    return f" {' '.join(WORD.findall(text.casefold()))} "
