"""The dataset itself: what the core calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from attrs import asdict, evolve, field, frozen

from ke_benchmarks import (
    EmbeddedDataset,
    FileDataset,
    LazyMapping,
    digest_of,
    digest_of_json,
    folder_of,
    queries_of,
    question_entities,
    user_file,
)
from ke_benchmarks.graph import BuildTools, load_atlas
from ke_core.plugin import QUESTION_ENTITIES, BadData, Case, Material, Prompt, PublishedAudit, Query
from ke_plugin_mquake import STYLES, MquakeBuild, MquakeConfig
from ke_plugin_mquake.atlas import RELATIONS, WORDS
from ke_plugin_mquake.builder import MquakeBuilder
from ke_plugin_mquake.cases import cases, consistent
from ke_plugin_mquake.edits import edit_cases
from ke_plugin_mquake.prompts import MquakePrompts, cloze, load
from ke_plugin_mquake.records import MquakeRecord
from ke_plugin_mquake.variants import ATLAS, OWN, MquakeVariant

ATLAS_CASES = 400


@frozen(kw_only=True)
class Mquake(FileDataset):
    """A variant of MQuAKE. The file is read once, at the first need of it."""

    variant: MquakeVariant
    config: MquakeConfig = field(factory=MquakeConfig)

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the file; with ``view=edits`` every distinct edit."""
        return iter(self._cases)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Single hops are asked directly, in the form of their eight demonstrations or as the bare cloze."""
        if style not in STYLES:
            return None
        if query.form == "cloze":
            return cloze(query.texts[0]) if style == "direct" else None
        if query.relation is not None:
            return self._prompts.single_hop(query.texts[0], query.relation) if style == "direct" else None
        ask = self._prompts.direct if style == "direct" else self._prompts.chain_of_thought
        return ask(query.texts[0])

    def material(self) -> Mapping[str, Material]:
        """What methods may be given, by name: the oracle tables of every dataset, and two more.

        ``question-entities`` (oracle): question to the label of its head; the file does not say what kind of thing it
        is. ``decompositions`` is a text: four worked questions in MeLLo's lines (Question, Subquestion, Generated
        answer, Retrieved fact, whether that contradicts the answer, Final answer).
        """
        return {
            "decompositions": Material(value=self._prompts.decompositions),
            QUESTION_ENTITIES: Material(value=LazyMapping(lambda: question_entities(self.cases())), oracle=True),
            **super().material(),
        }

    def checksum(self) -> str:
        """Of data and prompts together; empty while the data file is not here."""
        data = super().checksum()
        return digest_of([data, self._prompts.sha256]) if data else ""

    def published(self) -> Mapping[str, int]:
        """The counts that the publishers print; in the view of edits those that say how many there are."""
        counts = self.variant.published
        if self.config.view == "cases":
            return counts
        statements = counts.get("distinct statements")
        return {"cases": statements, "distinct statements": statements} if statements else {}

    def audit(self) -> PublishedAudit | None:
        """Of the cases as published; nobody audited the view of edits."""
        return self.variant.audit if self.config.view == "cases" else None

    @property
    def embedded(self) -> bool:
        """Whether its records are made here."""
        return False

    def chains(self) -> tuple[Case, ...]:
        """Every case of the file. All of them are read, since an edit's aliases stand with other cases' hops."""
        found = cases(tuple(self.records(MquakeRecord)))
        return consistent(found) if self.variant.consistent else found

    # --- read once ---------------------------------------------------------------------------------------

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        found = self.chains()
        if self.config.file is None and not self.embedded:
            self._check_demonstrations(found)
        return tuple(edit_cases(found)) if self.config.view == "edits" else found

    @cached_property
    def _prompts(self) -> MquakePrompts:
        return load(self.config.prompts, folder_of(self.data_dir, self.variant.family))

    def _check_demonstrations(self, found: tuple[Case, ...]) -> None:
        """Better now than in the middle of a run."""
        asked = {query.relation for _case, query in queries_of(found) if query.relation}
        for relation in sorted(asked):
            if relation not in self._prompts.recall:
                raise BadData(
                    f"no demonstrations for relation {relation} of {self.variant.file}",
                    hint="add them to recall.json in a folder of prompts, and pass -o mquake.prompts=FOLDER",
                )


@frozen(kw_only=True)
class MquakeAtlas(EmbeddedDataset, Mquake):
    """The builder applied to the embedded graph, through the same records and cases."""

    @property
    def embedded(self) -> bool:
        """It is."""
        return True

    def chains(self) -> tuple[Case, ...]:
        """Every case, in an order of which any first few are a fair sample."""
        return cases(atlas_records())

    def checksum(self) -> str:
        """Of the records that were made and the demonstrations together."""
        return digest_of([digest_of_json([asdict(record) for record in atlas_records()]), self._prompts.sha256])


@cache
def atlas_records() -> tuple[MquakeRecord, ...]:
    """The records of ``mquake-atlas``; the same in every process."""
    builder = MquakeBuilder(config=MquakeBuild(relations=",".join(RELATIONS)), words=WORDS)
    return tuple(builder.built(load_atlas(), BuildTools(cases=ATLAS_CASES)))


def made(variant: MquakeVariant, config: MquakeConfig) -> Mquake:
    """The dataset of that variant. Raises BadData for a file that is not there, or one that is not read."""
    if variant.name == ATLAS.name:
        found: Mquake = MquakeAtlas(variant=variant, config=config)
    elif variant.name == OWN.name and config.file:
        path = user_file(config.file, "mquake", form="MQuAKE's published format")
        return Mquake(variant=evolve(variant, file=str(path)), config=config)
    else:
        found = Mquake(variant=variant, config=config)
    if config.file:
        raise BadData(f"{variant.name} does not read mquake.file", hint="say --dataset mquake")
    if variant.name == OWN.name:
        raise BadData("the dataset mquake is a file of your own", hint="name it: -o mquake.file=FILE")
    return found
