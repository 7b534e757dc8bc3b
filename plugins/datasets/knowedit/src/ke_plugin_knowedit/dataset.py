"""The dataset classes: a published set, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from attrs import field, frozen

from ke_benchmarks import (
    EmbeddedDataset,
    FileDataset,
    Variant,
    digest_of_json,
    embedded_records,
    short_answer_prompt,
    usable_records,
    with_decoys,
)
from ke_core.plugin import Case, Dataset, Decoding, Parse, Prompt, Query, with_room
from ke_plugin_knowedit import ATLAS, KnoweditConfig, layouts
from ke_plugin_knowedit.atlas import atlas_records
from ke_plugin_knowedit.cases import OPENING, KnoweditCases, KnoweditRecord

ON = Decoding(max_tokens=100)
"""Length of the texts in the measurement of fluency; nothing stops them earlier."""


def build(variant: Variant, config: KnoweditConfig) -> Dataset:
    """Build the dataset of ``variant``."""
    kinds = {ATLAS.name: KnoweditAtlas, "knowedit-convsent": Convsent, "knowedit-sanitation": Sanitation}
    return kinds.get(variant.name, Knowedit)(variant=variant, config=config)


@frozen(kw_only=True)
class Knowedit(FileDataset):
    """A set of facts. It reads cases from the file as they are requested."""

    config: KnoweditConfig = field(factory=KnoweditConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id.

        Records with a blank target are skipped; a warning at the end states how many.
        """
        made = KnoweditCases(objects=self.config.objects, fluency=self.config.fluency)
        skipped = f"{self.variant.file}: skipped because of a blank target"
        usable = usable_records(enumerate(self.all_records()), lambda numbered: numbered[1].target.strip(), skipped)
        for (place, record), decoy in with_decoys(usable, lambda numbered: numbered[1].target):
            yield made.case(str(place), record, decoy)

    def all_records(self) -> Iterable[KnoweditRecord]:
        """Yield the records of the file."""
        return self.records(KnoweditRecord, key="", prepare=layouts.fact)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare prompt, or a question between "Q:" and "A:". Long targets get more room."""
        found = short_answer_prompt(query, style)
        if found is None:
            return None
        if query.id == OPENING:
            return Prompt(text=query.texts[0], decoding=ON, parse=Parse(until=""))
        golds = (query.gold, query.pre_edit) if query.pre_edit else (query.gold,)
        return with_room(found, (entity.label for gold in golds for entity in gold.entities), until="\nQ:")


@frozen(kw_only=True)
class Convsent(Knowedit):
    """ConvSent: the sentiment about a topic. A record needs the topic of the next one."""

    def all_records(self) -> Iterable[KnoweditRecord]:
        """Yield the records of the file."""
        raw = list(self.records(dict[str, Any], key="", lines=True))
        topics = [str(one.get("ent", "")) for one in raw]
        places = iter(range(len(raw)))
        opinion = partial(layouts.opinion, topics=topics)
        return self.records(KnoweditRecord, key="", lines=True, prepare=lambda one: opinion(one, next(places)))


@frozen(kw_only=True)
class Sanitation(Knowedit):
    """Sanitation: answers to forget, and answers to retain."""

    def all_records(self) -> Iterable[KnoweditRecord]:
        """Yield the records of the file."""
        return self.records(KnoweditRecord, key="", unpack=layouts.forgotten, prepare=layouts.forget)


@frozen(kw_only=True)
class KnoweditAtlas(EmbeddedDataset, Knowedit):
    """Facts about cities of the embedded graph."""

    def all_records(self) -> Iterable[KnoweditRecord]:
        """Return the embedded records."""
        return embedded_records(map(layouts.fact, atlas_records()), KnoweditRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
