"""The dataset classes: the published files, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ke_benchmarks import (
    EmbeddedDataset,
    FileDataset,
    Variant,
    digest_of,
    digest_of_json,
    embedded_records,
    short_answer_prompt,
    usable_records,
    with_decoys,
)
from ke_core.plugin import Case, DataFile, Prompt, Query, sha256_of
from ke_plugin_wikibigedit import ATLAS_STEPS, STEPS, WikibigeditConfig, numbers
from ke_plugin_wikibigedit.atlas import atlas_records
from ke_plugin_wikibigedit.cases import WikibigeditRecord, case, one_layout

Numbered = tuple[int, int, WikibigeditRecord]
"""The number of the timestep, the position in its file, and the record."""


@frozen(kw_only=True)
class Wikibigedit(FileDataset):
    """WikiBigEdit, timestep by timestep. It holds the records of one file at a time."""

    config: WikibigeditConfig = field(factory=WikibigeditConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the timesteps and files; an id has the first day of its timestep.

        Records without question or answer are skipped; a warning at the end states how many.
        """
        skipped = f"{self.variant.name}: skipped records without update or ans"
        usable = usable_records(self._numbered(), lambda numbered: numbered[2].is_editable, skipped)
        for (step, place, record), decoy in with_decoys(usable, _target):
            name = STEPS[step - 1]
            yield case(f"{name.partition('_')[0]}-{place}", record, name.replace("_", " to "), decoy)

    def _numbered(self) -> Iterator[Numbered]:
        for step in self.steps:
            for place, record in enumerate(self.step_records(step)):
                yield step, place, record

    def step_records(self, step: int) -> Iterator[WikibigeditRecord]:
        """Yield the records of one timestep."""
        of_step = evolve(self, variant=self.variant_of(step))
        return of_step.records(WikibigeditRecord, key="", prepare=one_layout, nan=True)  # tags are NaN in the files

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the timesteps that are read."""
        return numbers(self.config.steps)

    def variant_of(self, step: int) -> Variant:
        """Return the variant of one timestep: that of its file."""
        return evolve(self.variant, file=f"wiki_big_edit_{STEPS[step - 1]}.json")

    def files(self) -> tuple[DataFile, ...]:
        """Return the files of the chosen timesteps."""
        return tuple(
            DataFile(family=one.family, name=one.file, url=one.url) for one in map(self.variant_of, self.steps)
        )

    def checksum(self) -> str:
        """Return the checksum of the files, or an empty text if one is missing."""
        found = [self.variant_of(step).here(self.data_dir) for step in self.steps]
        paths = [path for path in found if path is not None]
        return digest_of(map(sha256_of, paths)) if len(paths) == len(found) else ""

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, or the question between "Q:" and "A:"."""
        return short_answer_prompt(query, style)


@frozen(kw_only=True)
class WikibigeditAtlas(EmbeddedDataset, Wikibigedit):
    """Questions about countries and cities of the embedded graph, in the first three timesteps."""

    def step_records(self, step: int) -> Iterator[WikibigeditRecord]:
        """Yield the embedded records of one timestep."""
        raw = map(one_layout, atlas_records()[step - 1])
        return iter(embedded_records(raw, WikibigeditRecord, self.variant.name))

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the timesteps that are read."""
        return numbers(self.config.steps, ATLAS_STEPS)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())


def _target(numbered: Numbered) -> str:
    return numbered[2].ans or ""
