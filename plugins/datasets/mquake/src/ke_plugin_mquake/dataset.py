"""The dataset classes of MQuAKE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import ClassVar

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
    """A variant of MQuAKE. The file is read once, when it is first needed."""

    hop_by_hop: ClassVar[bool] = True
    variant: MquakeVariant
    config: MquakeConfig = field(factory=MquakeConfig)

    def cases(self) -> Iterator[Case]:
        """Return every case in the order of the file, or every distinct edit with ``view=edits``."""
        return iter(self._cases)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the prompt. Single hops use the style direct, with eight demonstrations or as a bare cloze."""
        if style not in STYLES:
            return None
        if query.form == "cloze":
            return cloze(query.texts[0]) if style == "direct" else None
        if query.relation is not None:
            return self._prompts.single_hop(query.texts[0], query.relation) if style == "direct" else None
        ask = self._prompts.direct if style == "direct" else self._prompts.chain_of_thought
        return ask(query.texts[0])

    def material(self) -> Mapping[str, Material]:
        """Return material for methods by name: the oracle tables of every dataset, and two more.

        ``question-entities`` (oracle): question to the label of its head; the file does not contain the type of the
        head. ``decompositions``: text with four worked questions in MeLLo's format (Question, Subquestion, Generated
        answer, Retrieved fact, whether it contradicts the answer, Final answer).
        """
        return {
            "decompositions": Material(value=self._prompts.decompositions),
            QUESTION_ENTITIES: Material(value=LazyMapping(lambda: question_entities(self.cases())), oracle=True),
            **super().material(),
        }

    def checksum(self) -> str:
        """Return the checksum of data and prompts; empty if the data file is missing."""
        data = super().checksum()
        return digest_of([data, self._prompts.sha256]) if data else ""

    def published(self) -> Mapping[str, int]:
        """Return the published counts; with ``view=edits`` only the counts of edits."""
        counts = self.variant.published
        if self.config.view == "cases":
            return counts
        statements = counts.get("distinct statements")
        return {"cases": statements, "distinct statements": statements} if statements else {}

    def audit(self) -> PublishedAudit | None:
        """Return the published audit of the cases; there is none for ``view=edits``."""
        return self.variant.audit if self.config.view == "cases" else None

    def chains(self) -> tuple[Case, ...]:
        """Return every case of the file. An edit's aliases are stored with hops of other cases, so this reads the whole
        file.
        """
        found = cases(tuple(self.records(MquakeRecord)))
        return consistent(found) if self.variant.consistent else found

    # --- read once ---------------------------------------------------------------------------------------

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        found = self.chains()
        if self.config.file is None and self.variant.file:
            self._check_demonstrations(found)
        return tuple(edit_cases(found)) if self.config.view == "edits" else found

    @cached_property
    def _prompts(self) -> MquakePrompts:
        return load(self.config.prompts, folder_of(self.data_dir, self.variant.family))

    def _check_demonstrations(self, found: tuple[Case, ...]) -> None:
        """Check that every relation has demonstrations, before the run starts."""
        asked = {query.relation for _case, query in queries_of(found) if query.relation}
        for relation in sorted(asked):
            if relation not in self._prompts.recall:
                raise BadData(
                    f"{self.variant.file} has no demonstrations for relation {relation}",
                    hint="add them to recall.json in a folder of prompts and pass -o mquake.prompts=FOLDER",
                )


@frozen(kw_only=True)
class MquakeAtlas(EmbeddedDataset, Mquake):
    """The builder applied to the embedded graph, with the same records and cases."""

    def chains(self) -> tuple[Case, ...]:
        """Return every case, ordered so that the first cases are a representative sample."""
        return cases(atlas_records())

    def checksum(self) -> str:
        """Return the checksum of the built records and the demonstrations."""
        return digest_of([digest_of_json([asdict(record) for record in atlas_records()]), self._prompts.sha256])


@cache
def atlas_records() -> tuple[MquakeRecord, ...]:
    """Return the records of ``mquake-atlas``, identical in every process."""
    builder = MquakeBuilder(config=MquakeBuild(relations=",".join(RELATIONS)), words=WORDS)
    return tuple(builder.built(load_atlas(), BuildTools(cases=ATLAS_CASES)))


def make_dataset(variant: MquakeVariant, config: MquakeConfig) -> Mquake:
    """Return the dataset of that variant. Raises BadData if a file is missing, or given but not used."""
    if variant.name == ATLAS.name:
        found: Mquake = MquakeAtlas(variant=variant, config=config)
    elif variant.name == OWN.name and config.file:
        path = user_file(config.file, "mquake", form="MQuAKE's published format")
        return Mquake(variant=evolve(variant, file=str(path)), config=config)
    else:
        found = Mquake(variant=variant, config=config)
    if config.file:
        raise BadData(f"{variant.name} does not read mquake.file", hint="use --dataset mquake")
    if variant.name == OWN.name:
        raise BadData("the dataset mquake needs a file", hint="pass -o mquake.file=FILE")
    return found
