"""The datasets themselves: what the core calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

from attrs import evolve, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, LazyMapping, digest_of, digest_of_json, folder_of, user_file
from ke_benchmarks.graph import BuildTools, load_atlas
from ke_core.plugin import BadData, Case, DataFile, Material, Prompt, Query, data_places, sha256_of
from ke_plugin_recoe import BLOBS, FILE, GROUPS, URL, WHOLE, RecoeBuild, prompts
from ke_plugin_recoe.builder import RecoeBuilder
from ke_plugin_recoe.cases import case
from ke_plugin_recoe.layouts import record_of
from ke_plugin_recoe.records import RecoeRecord, Scheme
from ke_plugin_recoe.words import of_the_atlas

ATLAS_CASES = 360
WRONG_RECORD = "fix the file, or get it again from its authors; the plugin's README has the format of a record"
# Only what the graph knows in full is counted: every neighbour of a country that has any there.
# Sources differ on the populations of cities, by half and more; of two numbers one is at least twice the other.
ATLAS_BUILD = RecoeBuild(margin=2, relations="population,area,city-population,neighbour")


@frozen(kw_only=True)
class Recoe(FileDataset):
    """Recoe(variant, config): one scheme, or all of them, read record by record. Its questions come in one piece."""

    hop_by_hop: ClassVar[bool] = False

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the files. Raises BadData that names file, record and field."""
        return _cases(self.all_records(), perplexity=self.config.perplexity)

    def all_records(self) -> Iterator[RecoeRecord]:
        """Every record, with its scheme. Raises BadData that names file, record and key."""
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
        """``counterfactual-facts`` (oracle) too: case to the sentences that input augmentation gives with its question.

        They are the counterfactuals and what stays beside them: the second count of a sum, for one.
        """
        given = LazyMapping(lambda: {case.id: case.sentences_after for case in self.cases()})
        return {**super().material(), "counterfactual-facts": Material(value=given, oracle=True)}

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Few-shot, at once or after a chain of thought; see :mod:`ke_plugin_recoe.prompts`."""
        return prompts.prompt(query, style)

    def checksum(self) -> str:
        """Of the files and the demonstrations together; empty while the files are not here."""
        try:
            paths = [path for scheme in self.schemes for path in self.paths(scheme)]
        except BadData:
            return ""
        return digest_of((*map(sha256_of, dict.fromkeys(paths)), prompts.FILES.sha256))

    def files(self) -> tuple[DataFile, ...]:
        """The user's own file, or the files of every scheme."""
        if self.config.file is not None:
            return tuple(DataFile(family="recoe", name=str(path)) for path in self.paths(self.schemes[0]))
        return tuple(file for scheme in self.schemes for file in self._released(scheme))

    def _released(self, scheme: Scheme) -> list[DataFile]:
        """The released files of a scheme; a missing one by the name that the release gives it."""
        blobs = {BLOBS[scheme]: "awslabs/ReCoE"} if scheme in BLOBS else {}
        try:
            names = [str(path.absolute()) for path in self.paths(scheme)]
        except BadData:
            names = [f"{scheme}/{FILE}"]
        return [DataFile(family="recoe", name=name, url=URL, blobs=blobs) for name in names]

    def published(self) -> dict[str, int]:
        """The release's counts, where it is the release that is read."""
        return {} if self.config.file is not None else dict(self.variant.published)

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """Those that this dataset has, in the order of the paper's tables."""
        if self.variant == WHOLE:
            return tuple(cast("Scheme", scheme) for scheme in GROUPS)
        return (cast("Scheme", self.variant.name.removeprefix("recoe-")),)

    def paths(self, scheme: Scheme) -> list[Path]:
        """The JSON files of a scheme, or the user's own. Raises BadData that says where to put them."""
        if self.config.file is not None:
            return [user_file(self.config.file, "recoe", form="the format of the plugin's README")]
        explicit = folder_of(self.data_dir, "recoe")
        places = [place for name in (scheme, f"data/{scheme}") for place in data_places("recoe", name, explicit)]
        for place in places:
            found = sorted(place.glob("*.json")) if place.is_dir() else []
            if found:
                return found
        raise BadData(
            f"the folder {scheme} of recoe is not here",
            hint=f"its license forbids to ship or change it: get the release from its authors, put data/{scheme} at "
            f"{places[-1]}, or pass --data-dir",
        )


@frozen(kw_only=True)
class RecoeAtlas(EmbeddedDataset, Recoe):
    """The builder applied to the atlas, through the same records and cases."""

    def cases(self) -> Iterator[Case]:
        """Every case, in an order of which any first few are a fair sample."""
        return iter(_atlas(perplexity=self.config.perplexity))

    def checksum(self) -> str:
        """Of the records that were made and the demonstrations together."""
        return digest_of((_digest(), prompts.FILES.sha256))

    def published(self) -> dict[str, int]:
        """Return no counts: nobody else has published any."""
        return {}


@cache
def atlas_records() -> tuple[RecoeRecord, ...]:
    """The records of ``recoe-atlas``; the same in every process."""
    builder = RecoeBuilder(config=ATLAS_BUILD, words=of_the_atlas())
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
