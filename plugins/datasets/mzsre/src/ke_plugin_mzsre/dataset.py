"""The dataset classes: a published file of two languages, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from attrs import evolve, field, frozen

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
from ke_core.plugin import Case, Dataset, Prompt, Query
from ke_plugin_mzsre import ATLAS, MZSRE, MzsreConfig, languages
from ke_plugin_mzsre.atlas import atlas_records
from ke_plugin_mzsre.cases import BilingualCases, MzsreRecord, halves

NOTHING = "unknown"
"""The decoy in a language that has no other target."""


def build(variant: Variant, config: MzsreConfig) -> Dataset:
    """Build the dataset of ``variant``. Raises BadConfig for languages that it does not have."""
    pair = languages(variant.name, config)
    if variant is ATLAS:
        return MzsreAtlas(variant=variant, config=config, pair=pair)
    file = variant.file.replace("LANGUAGES", "".join(pair)) if variant is MZSRE else variant.file
    return Mzsre(variant=evolve(variant, file=file), config=config, pair=pair)


@frozen(kw_only=True)
class Mzsre(FileDataset):
    """Two languages of a multilingual zsRE. It reads cases from the file as they are requested."""

    config: MzsreConfig = field(factory=MzsreConfig)
    pair: tuple[str, str]
    """The published codes of the edit's language and of the other one."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id.

        Records that cannot be edited are skipped; a warning at the end states how many.
        """
        made = BilingualCases(edit=self.pair[0], other=self.pair[1])
        skipped = f"{self.variant.file}: skipped records whose question, subject or answer is blank"
        usable = usable_records(enumerate(self.all_records()), lambda one: one[1].edit.is_editable, skipped)
        for (place, record), decoy in with_decoys(usable, lambda one: one[1].edit.alt):
            yield made.case(str(place), record, (decoy, self._decoy(record)))

    @staticmethod
    def _decoy(record: MzsreRecord) -> str:
        """Return the decoy in the other language: the answer to the unrelated question, unless it is the target."""
        answer = record.other.loc_ans.strip()
        return answer if answer and answer.casefold() != record.other.alt.strip().casefold() else NOTHING

    def all_records(self) -> Iterable[MzsreRecord]:
        """Yield the records of the file."""
        return self.records(MzsreRecord, key="", prepare=partial(halves, edit=self.pair[0], other=self.pair[1]))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, or the question between "Q:" and "A:" in every language."""
        return short_answer_prompt(query, style)


@frozen(kw_only=True)
class MzsreAtlas(EmbeddedDataset, Mzsre):
    """Questions about capitals of the embedded graph, in English and German."""

    def all_records(self) -> Iterable[MzsreRecord]:
        """Return the embedded records."""
        raw = (halves(record, *self.pair) for record in atlas_records())
        return embedded_records(raw, MzsreRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
