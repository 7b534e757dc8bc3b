"""The dataset classes of ReCoE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

from attrs import evolve, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, LazyMapping, digest_of, digest_of_json, folder_of, user_file
from ke_benchmarks.graph import BuildTools, load_atlas
from ke_core.plugin import BadData, Case, DataFile, Material, Prompt, Query, data_places, sha256_of
from ke_plugin_recoe import BLOBS, FILE, GROUPS, URL, WHOLE, RecoeBuild, prompts
from ke_plugin_recoe.builder import RecoeBuilder
from ke_plugin_recoe.cases import case
from ke_plugin_recoe.layouts import record_of
from ke_plugin_recoe.records import RecoeRecord, Scheme
from ke_plugin_recoe.words import atlas_phrases

ATLAS_CASES = 360
WRONG_RECORD = "fix the file, or get it again from its authors; the plugin's README shows the format of a record"
# Counts need complete data: neighbors of countries with any recorded neighbor.
# Sources differ by half and more on the populations of cities, so compared numbers differ at least by a factor of two.
ATLAS_BUILD = RecoeBuild(margin=2, relations="population,area,city-population,neighbour")


@frozen(kw_only=True)
class Recoe(FileDataset):
    """One scheme, or all of them, read record by record."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the files. Raises BadData with file, record and field."""
        return _cases(self.all_records(), perplexity=self.config.perplexity)

    def all_records(self) -> Iterator[RecoeRecord]:
        """Yield every record with its scheme. Raises BadData with file, record and key."""
        own = self.config.file is not None
        for scheme in self.schemes[:1] if own else self.schemes:
            named = None if own and len(self.schemes) > 1 else scheme
            for path in self.paths(scheme):
                one = evolve(self, variant=evolve(self.variant, file=str(path)))
                for number, raw in enumerate(one.records(dict[str, Any], key="", lines=True), start=1):
                    try:
                        yield record_of(raw, named)
                    except (TypeError, ValueError) as wrong:
                        raise BadData(f"{path}, record {number}: {wrong}", hint=WRONG_RECORD) from wrong

    def material(self) -> Mapping[str, Material]:
        """Return the material of every dataset, and ``counterfactual-facts`` (oracle): case to its sentences for input
        augmentation.

        These are the counterfactuals and the unchanged facts, for example the second count of a sum.
        """
        given = LazyMapping(lambda: {case.id: case.sentences_after for case in self.cases()})
        return {**super().material(), "counterfactual-facts": Material(value=given, oracle=True)}

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the few-shot prompt, direct or with a chain of thought; see :mod:`ke_plugin_recoe.prompts`."""
        return prompts.prompt(query, style)

    def checksum(self) -> str:
        """Return the checksum of the files and the demonstrations; empty if files are missing."""
        try:
            paths = [path for scheme in self.schemes for path in self.paths(scheme)]
        except BadData:
            return ""
        return digest_of((*map(sha256_of, dict.fromkeys(paths)), prompts.FILES.sha256))

    def files(self) -> tuple[DataFile, ...]:
        """Return your own file, or the files of every scheme."""
        if self.config.file is not None:
            return tuple(DataFile(family="recoe", name=str(path)) for path in self.paths(self.schemes[0]))
        return tuple(file for scheme in self.schemes for file in self._released(scheme))

    def _released(self, scheme: Scheme) -> list[DataFile]:
        """Return the released files of a scheme. A missing file gets its name in the release."""
        blobs = {BLOBS[scheme]: "awslabs/ReCoE"} if scheme in BLOBS else {}
        try:
            names = [str(path.absolute()) for path in self.paths(scheme)]
        except BadData:
            names = [f"{scheme}/{FILE}"]
        return [DataFile(family="recoe", name=name, url=URL, blobs=blobs) for name in names]

    def published(self) -> dict[str, int]:
        """Return the release's counts if the release is read."""
        return {} if self.config.file is not None else dict(self.variant.published)

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes of this dataset, in the order of the paper's tables."""
        if self.variant == WHOLE:
            return tuple(cast("Scheme", scheme) for scheme in GROUPS)
        return (cast("Scheme", self.variant.name.removeprefix("recoe-")),)

    def paths(self, scheme: Scheme) -> list[Path]:
        """Return the JSON files of a scheme, or your own. Raises BadData with instructions."""
        if self.config.file is not None:
            return [user_file(self.config.file, "recoe", form="the format of the plugin's README")]
        explicit = folder_of(self.data_dir, "recoe")
        places = [place for name in (scheme, f"data/{scheme}") for place in data_places("recoe", name, explicit)]
        for place in places:
            found = sorted(place.glob("*.json")) if place.is_dir() else []
            if found:
                return found
        raise BadData(
            f"the folder {scheme} of recoe is missing",
            hint="its license does not allow to distribute or change it: get the release from its authors, put "
            f"data/{scheme} at {places[-1]}, or pass --data-dir",
        )


@frozen(kw_only=True)
class RecoeAtlas(EmbeddedDataset, Recoe):
    """The builder applied to the embedded graph, with the same records and cases."""

    def cases(self) -> Iterator[Case]:
        """Return every case, ordered so that the first cases are representative."""
        return iter(_atlas(perplexity=self.config.perplexity))

    def checksum(self) -> str:
        """Return the checksum of the built records and the demonstrations."""
        return digest_of((_digest(), prompts.FILES.sha256))

    def published(self) -> dict[str, int]:
        """Return no counts: there are no published ones."""
        return {}


@cache
def atlas_records() -> tuple[RecoeRecord, ...]:
    """Return the records of ``recoe-atlas``, identical in every process."""
    builder = RecoeBuilder(config=ATLAS_BUILD, words=atlas_phrases())
    return tuple(islice(builder.built(load_atlas(), BuildTools(cases=ATLAS_CASES)), ATLAS_CASES))


@cache
def _atlas(*, perplexity: bool) -> tuple[Case, ...]:
    return tuple(_cases(atlas_records(), perplexity=perplexity))


def _cases(records: Iterable[RecoeRecord], *, perplexity: bool) -> Iterator[Case]:
    """Yield a case for each record, numbered by scheme."""
    seen: Counter[str] = Counter()
    for record in records:
        seen[record.scheme] += 1
        yield case(record, seen[record.scheme], perplexity=perplexity)


@cache
def _digest() -> str:
    return digest_of_json([record.json() for record in atlas_records()])
