"""The dataset classes: the published folders, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, field, frozen

from ke_benchmarks import (
    EmbeddedDataset,
    FileDataset,
    digest_of,
    digest_of_json,
    embedded_records,
    folder_of,
    short_answer_prompt,
    usable_records,
    with_decoys,
)
from ke_core.plugin import BadData, Case, DataFile, Prompt, Query, data_places, sha256_of
from ke_plugin_uniedit import FAMILY, UnieditConfig
from ke_plugin_uniedit.atlas import atlas_records
from ke_plugin_uniedit.cases import case
from ke_plugin_uniedit.records import UnieditRecord, numbered


@frozen(kw_only=True)
class Uniedit(FileDataset):
    """UniEdit, domain by domain. It holds the records of one file at a time."""

    config: UnieditConfig = field(factory=UnieditConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the domains and files. An id is the domain and the published id.

        Records with an incomplete edit or hop are skipped; a warning at the end states how many.
        """
        skipped = f"{self.variant.name}: skipped records with a blank prompt, target or subject"
        usable = usable_records(self.all_records(), lambda named: named[1].is_complete, skipped)
        for (domain, record), decoy in with_decoys(usable, lambda named: named[1].edit.target):
            yield case(domain, record, decoy, self.config.hops)

    def all_records(self) -> Iterator[tuple[str, UnieditRecord]]:
        """Yield the records of the chosen domains, each with its domain."""
        for path in self.paths():
            of_domain = evolve(self, variant=evolve(self.variant, file=str(path.absolute())))
            for record in of_domain.records(UnieditRecord, key="id", unpack=numbered):
                yield path.stem, record

    def paths(self) -> list[Path]:
        """Return the files of the chosen domains, by name. Raises BadData with instructions."""
        part = self.config.part
        places = data_places(FAMILY, part, folder_of(self.data_dir, FAMILY))
        found = next((files for place in places if (files := sorted(place.glob("*.json")))), [])
        if not found:
            raise BadData(
                f"the folder {part} of uniedit is missing",
                hint=f"get it from {self.variant.url} and put it at {places[-1]}, or pass --data-dir",
            )
        wanted = [name.strip() for name in self.config.domains.split(",") if name.strip()]
        known = {path.stem: path for path in found}
        for name in wanted:
            if name not in known:
                raise BadData(f"uniedit has no domain {name!r} in {found[0].parent}", hint=f"it has {', '.join(known)}")
        return [known[name] for name in sorted(set(wanted))] or found

    def checksum(self) -> str:
        """Return the checksum of the files; empty if they are missing."""
        try:
            return digest_of(map(sha256_of, self.paths()))
        except BadData:
            return ""

    def files(self) -> tuple[DataFile, ...]:
        """Return the files of the chosen domains, or the published name of a file if they are missing."""
        try:
            names = [str(path.absolute()) for path in self.paths()]
        except BadData:
            names = [f"{self.config.part}/DOMAIN.json"]
        return tuple(DataFile(family=FAMILY, name=name, url=self.variant.url) for name in names)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare prompt, or a question between "Q:" and "A:"."""
        return short_answer_prompt(query, style)


@frozen(kw_only=True)
class UnieditAtlas(EmbeddedDataset, Uniedit):
    """Facts about countries of the embedded graph."""

    def all_records(self) -> Iterator[tuple[str, UnieditRecord]]:
        """Yield the embedded records; their domain is geography."""
        for record in embedded_records(numbered(atlas_records()), UnieditRecord, self.variant.name):
            yield "geography", record

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
