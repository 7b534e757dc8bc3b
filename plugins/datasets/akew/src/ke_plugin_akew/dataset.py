"""The dataset classes: a published file, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import field, frozen

from ke_benchmarks import (
    EmbeddedDataset,
    FileDataset,
    digest_of_json,
    embedded_records,
    long_answer_prompt,
    short_answer_prompt,
    warn_skipped,
)
from ke_core.plugin import Case, Prompt, Query
from ke_plugin_akew import AkewConfig
from ke_plugin_akew.atlas import atlas_records
from ke_plugin_akew.cases import case, usable
from ke_plugin_akew.records import AkewRecord, one_layout


@frozen(kw_only=True)
class Akew(FileDataset):
    """One published set of AKEW. It reads cases from the file as they are requested."""

    config: AkewConfig = field(factory=AkewConfig)
    max_tokens: int = 512

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file. A warning at the end states how many triplets were left out."""
        left_out = 0
        for record in self.all_records():
            left_out += sum(len(one.unsfact_triplets_GPT) - len(usable(one)) for one in record.requested_rewrite)
            yield case(record, self.config.edit)
        warn_skipped(f"{self.variant.file}: skipped triplets without subject, target or exactly one {{}}", left_out)

    def all_records(self) -> Iterable[AkewRecord]:
        """Yield the records of the file."""
        return self.records(AkewRecord, prepare=one_layout)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the prompt of a question, with room for a text whatever its right answer is, or the bare cloze."""
        if query.form == "cloze":
            return short_answer_prompt(query, style)
        room = self.config.max_tokens or self.max_tokens
        return long_answer_prompt(query.texts[0], style, max_tokens=room, end=self.config.end)


@frozen(kw_only=True)
class AkewAtlas(EmbeddedDataset, Akew):
    """Facts and texts about countries of the embedded graph."""

    max_tokens: int = 96

    def all_records(self) -> Iterable[AkewRecord]:
        """Return the embedded records."""
        return embedded_records(map(one_layout, atlas_records()), AkewRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
