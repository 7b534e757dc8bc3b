"""The dataset classes: the published file, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import field, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, digest_of_json, embedded_records, long_answer_prompt
from ke_core.plugin import Case, Prompt, Query
from ke_plugin_unkebench import UnkebenchConfig
from ke_plugin_unkebench.atlas import atlas_records
from ke_plugin_unkebench.cases import UnkebenchRecord, case


@frozen(kw_only=True)
class Unkebench(FileDataset):
    """UnKEBench. It reads cases from the file as they are requested."""

    config: UnkebenchConfig = field(factory=UnkebenchConfig)
    max_tokens: int = 512
    """The released code: up to 512 new tokens."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file."""
        return map(case, self.all_records())

    def all_records(self) -> Iterable[UnkebenchRecord]:
        """Yield the records of the file."""
        return self.records(UnkebenchRecord, key="id")

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, which is also the prompt of the edit, or the question between "Q:" and "A:"."""
        room = self.config.max_tokens or self.max_tokens
        return long_answer_prompt(query.texts[0], style, max_tokens=room, end=self.config.end)


@frozen(kw_only=True)
class UnkebenchAtlas(EmbeddedDataset, Unkebench):
    """Paragraphs about countries of the embedded graph. Their longest one has about 70 tokens."""

    max_tokens: int = 96

    def all_records(self) -> Iterable[UnkebenchRecord]:
        """Return the embedded records."""
        return embedded_records(atlas_records(), UnkebenchRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
