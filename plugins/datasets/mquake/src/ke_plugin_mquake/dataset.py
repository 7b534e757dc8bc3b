"""The dataset itself: what the core calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from attrs import field, frozen

from ke_core.plugin import (
    SUB_QUESTIONS,
    BadData,
    Case,
    DatasetInfo,
    Edit,
    Material,
    Prompt,
    Query,
    contradicting,
    find_data,
    sub_questions,
)
from ke_plugin_mquake import STYLES, MquakeConfig
from ke_plugin_mquake.cases import cases, consistent
from ke_plugin_mquake.edits import edit_cases
from ke_plugin_mquake.prompts import Prompts, cloze, digest_of, load
from ke_plugin_mquake.reading import read
from ke_plugin_mquake.variants import CITE, Variant

T = TypeVar("T")


@frozen(kw_only=True)
class Mquake:
    """A variant of MQuAKE. The file is read once, at the first need of it."""

    variant: Variant
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

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """The published sets have no split."""
        del k, seed
        return None

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """With ``mask``, the edits that contradict the chain that is right for this case."""
        if not self.config.mask:
            return frozenset()
        return contradicting(case.facts_after if edited else case.facts_before, bank)

    def material(self) -> Mapping[str, Material]:
        """What methods may be given, by name.

        ``decompositions``: text, four worked questions in MeLLo's lines (Question, Subquestion, Generated
        answer, Retrieved fact, whether that contradicts the answer, Final answer). ``answers`` (oracle):
        "case/query" to the gold label, right for an edited case after editing. ``aliases`` (oracle): label of
        an answer to its aliases. ``sub-questions`` (oracle): "case/query" to its hops (``ke_core.plugin.SubQuestion``).
        """
        return {
            "decompositions": Material(value=self._prompts.decompositions),
            "answers": Material(value=Deferred(self._answers), oracle=True),
            "aliases": Material(value=Deferred(self._aliases), oracle=True),
            SUB_QUESTIONS: Material(value=Deferred(lambda: sub_questions(self._cases)), oracle=True),
        }

    def info(self) -> DatasetInfo:
        """``sha256`` is of data and prompts together, and empty while the data file is not here."""
        published = self.variant.published
        if self.config.view == "edits":
            statements = published.get("distinct statements")
            published = {"cases": statements, "distinct statements": statements} if statements else {}
        try:
            here = find_data("mquake", self.variant.file, explicit=self._folder)  # without a pin: nothing is fetched
            sha256 = digest_of([_content(here), self._prompts.sha256.encode()])
        except BadData:
            sha256 = ""
        return DatasetInfo(
            title=self.variant.summary,
            licence=self.variant.licence,
            source=self.variant.url,
            cite=CITE,
            sha256=sha256,
            published=published,
        )

    # --- read once ---------------------------------------------------------------------------------------

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        variant = self.variant
        path = find_data("mquake", variant.file, explicit=self._folder, url=variant.url, sha256=variant.sha256)
        found = cases(read(_content(path), path))
        if variant.consistent:
            found = consistent(found)
        self._check_demonstrations(found)
        return tuple(edit_cases(found)) if self.config.view == "edits" else found

    @cached_property
    def _prompts(self) -> Prompts:
        return load(self.config.prompts, self._folder)

    @property
    def _folder(self) -> Path | None:
        if self.config.data_dir is None:
            return None
        folder = Path(self.config.data_dir).expanduser()
        if not folder.is_dir():
            raise BadData(f"no folder {folder}", hint="mquake.data_dir is the folder with the published files")
        return folder

    def _check_demonstrations(self, found: tuple[Case, ...]) -> None:
        """Better now than in the middle of a run."""
        asked = {query.relation for _case, query in queries(found) if query.relation}
        for relation in sorted(asked):
            if relation not in self._prompts.recall:
                raise BadData(
                    f"no demonstrations for relation {relation} of {self.variant.file}",
                    hint="add them to recall.json in a folder of prompts, and pass -o mquake.prompts=FOLDER",
                )

    def _answers(self) -> dict[str, str]:
        return {f"{case.id}/{query.id}": query.gold.entities[0].label for case, query in queries(self._cases)}

    def _aliases(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for _case, query in queries(self._cases):
            for gold in (query.gold, query.stale):
                for entity in gold.entities if gold else ():
                    found.setdefault(entity.label, {}).update(dict.fromkeys(entity.aliases))
        return {label: tuple(aliases) for label, aliases in found.items()}


class Deferred(Mapping[str, T]):
    """A mapping that is made when somebody first looks into it: most editors never do."""

    def __init__(self, make: Callable[[], dict[str, T]]) -> None:
        self._make = make

    def __getitem__(self, key: str) -> T:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    @cached_property
    def _made(self) -> dict[str, T]:
        return self._make()


def queries(found: Iterable[Case]) -> Iterator[tuple[Case, Query]]:
    """Every query with its case; of those that share an id, the one asked of the edited model comes last."""
    for case in found:
        for probe in sorted(case.probes, key=lambda probe: probe.asked("after")):
            yield from ((case, query) for query in probe.queries)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {wrong.strerror}", hint="check the file and its rights") from wrong
