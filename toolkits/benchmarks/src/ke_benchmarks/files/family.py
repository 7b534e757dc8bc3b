"""Datasets that are read from published files."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from attrs import evolve, field, frozen

from ke_benchmarks.files.download import find_data
from ke_benchmarks.files.records import read_records
from ke_benchmarks.probes import sub_questions
from ke_core.plugin import (
    SUB_QUESTIONS,
    BadData,
    Case,
    DataFile,
    Dataset,
    DatasetInfo,
    DatasetSpec,
    Edit,
    Gold,
    Material,
    Prompt,
    PublishedAudit,
    Query,
    contradicting,
    sha256_of,
)

T = TypeVar("T")


@frozen(kw_only=True)
class Variant:
    """One published file of a family.

    ``sha256`` is that of the published file; if it is empty (unknown), the file is not downloaded, and the error
    message contains ``url``. ``size`` in bytes, 0 if unknown. ``blobs``: the first 8 digits of the Git blob id of each
    published version, and its publisher. ``published``: the publishers' counts, by the names of ``ke datasets stats``.
    ``audit``: errors found by others, for ``ke audit``.
    """

    name: str
    family: str
    summary: str
    file: str
    url: str
    license: str
    cite: str
    sha256: str = ""
    size: int = 0
    blobs: Mapping[str, str] = field(factory=dict)
    published: Mapping[str, int] = field(factory=dict)
    audit: PublishedAudit | None = None

    def spec(self, *, config: type, build: Callable[[Any], Dataset] | str, **declared: Any) -> DatasetSpec:
        """Return the dataset's specification. ``declared``: further fields of ``DatasetSpec``."""
        return DatasetSpec(
            name=self.name,
            summary=self.summary,
            cite=self.cite,
            config=config,
            build=build,
            hides=lambda options: bool(getattr(options, "mask", False)),
            **declared,
        )

    def with_file(self, path: Path) -> Self:
        """Return a variant that reads your own file."""
        url = f"your own file: -o {self.family}.file=FILE"
        return evolve(self, file=str(path), url=url, license="yours", published={})

    def find(self, data_dir: str | None) -> Path:
        """Return the file, downloaded if it is missing and has a checksum. Raises BadData with instructions."""
        explicit = self._folder(data_dir)
        return find_data(self.family, self.file, explicit=explicit, url=self.url, sha256=self.sha256)

    def here(self, data_dir: str | None) -> Path | None:
        """Return the file if it is on this machine, without downloading."""
        try:
            return find_data(self.family, self.file, explicit=self._folder(data_dir))
        except BadData:
            return None

    def _folder(self, data_dir: str | None) -> Path | None:
        return folder_of(data_dir, self.family)


def variant_specs(
    variants: Iterable[Variant], build: Callable[[Any, Any], Dataset], *, config: type, **declared: Any
) -> list[DatasetSpec]:
    """Return the specifications of a family. ``build`` makes a dataset of a variant and options ``config``.

    ``declared``: further fields of ``DatasetSpec``.
    """
    return [one.spec(config=config, build=partial(build, one), family=one.family, **declared) for one in variants]


def folder_of(data_dir: str | None, family: str) -> Path | None:
    """Return the option ``data_dir`` as an existing folder. Raises BadData."""
    if data_dir is None:
        return None
    folder = Path(data_dir).expanduser()
    if not folder.is_dir():
        raise BadData(f"no folder {folder}", hint=f"{family}.data_dir must be the folder with the published files")
    return folder


def user_file(name: str, family: str, *, form: str) -> Path:
    """Return the option ``file`` as an existing file; ``form`` describes its format. Raises BadData."""
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise BadData(f"no file {path}", hint=f"{family}.file must be a JSON file in {form}")
    return path


@frozen
class CaseDataset(ABC):
    """The parts of a dataset that follow from its cases and options. Subclasses implement cases and prompts."""

    config: Any
    hop_by_hop: ClassVar[bool] = False
    """Whether its questions are single hops, or chains of hops in the cases, with known pre-edit answers.

    Only then does it have sub-questions.
    """

    @abstractmethod
    def cases(self) -> Iterator[Case]:
        """Return every case in the order of the file."""

    @abstractmethod
    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the prompt for ``query.texts[0]`` in that style; None if the style does not apply."""

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Return None: no split of its own."""
        del k, seed
        return None

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """Return, with ``mask``, the edits that contradict the facts of this case."""
        if not self.masked:
            return frozenset()
        return contradicting(case.facts_after if edited else case.facts_before, bank)

    def material(self) -> Mapping[str, Material]:
        """Return material for methods, by name.

        ``answers`` (oracle): "case/query" to the gold label of an edited case after editing (separated by commas if all
        of several are required). ``aliases`` (oracle): label of an answer to its aliases. ``sub-questions`` (oracle):
        "case/query" to its hops (``ke_core.plugin.SubQuestion``), if the family's questions are chains of hops.
        """
        apart = {SUB_QUESTIONS: Material(value=LazyMapping(lambda: sub_questions(tuple(self.cases()))), oracle=True)}
        return {
            "answers": Material(value=LazyMapping(lambda: answers_of(self.cases())), oracle=True),
            "aliases": Material(value=LazyMapping(lambda: aliases_of(self.cases())), oracle=True),
            **(apart if self.hop_by_hop else {}),
        }

    @abstractmethod
    def info(self) -> DatasetInfo:
        """Return license, source, checksum and published counts."""

    @property
    def masked(self) -> bool:
        """The option ``mask``, or False if there is none."""
        return bool(getattr(self.config, "mask", False))


@frozen(kw_only=True)
class FileDataset(CaseDataset):
    """A variant of a family, read from its file."""

    variant: Variant

    def records(self, into: type[T], **how: Any) -> Iterator[T]:
        """Yield the file's records. ``how``: see ``ke_benchmarks.files.records.read_records``."""
        return read_records(self.variant.find(self.data_dir), into, **how)

    def info(self) -> DatasetInfo:
        """Return the description. ``sha256`` is empty if the file is missing."""
        variant = self.variant
        return DatasetInfo(
            title=variant.summary,
            license=variant.license,
            source=variant.url,
            cite=variant.cite,
            sha256=self.checksum(),
            published=self.published(),
            files=self.files(),
            audit=self.audit(),
        )

    def files(self) -> tuple[DataFile, ...]:
        """Return the files that are read."""
        one = self.variant
        return (
            DataFile(family=one.family, name=one.file, url=one.url, sha256=one.sha256, size=one.size, blobs=one.blobs),
        )

    def checksum(self) -> str:
        """Return the SHA-256 of the file, or an empty text if it is missing."""
        path = self.variant.here(self.data_dir)
        return sha256_of(path) if path else ""

    def published(self) -> Mapping[str, int]:
        """Return the published counts for the chosen options."""
        return self.variant.published

    def audit(self) -> PublishedAudit | None:
        """Return the published audit for the chosen options."""
        return self.variant.audit

    @property
    def data_dir(self) -> str | None:
        """The option ``data_dir``."""
        found: str | None = self.config.data_dir
        return found


class LazyMapping(Mapping[str, T]):
    """A mapping that is computed on first access, because most editors do not use it."""

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


def digest_of(parts: Iterable[str]) -> str:
    """Return one SHA-256 of several (in hex). Moving text between the parts changes it."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, parts))).hexdigest()


def queries_of(found: Iterable[Case]) -> Iterator[tuple[Case, Query]]:
    """Yield every query with its case. Of queries with the same id, the edited model's comes last."""
    for case in found:
        for probe in sorted(case.probes, key=lambda probe: probe.asked("after")):
            yield from ((case, query) for query in probe.queries)


def answers_of(found: Iterable[Case]) -> dict[str, str]:
    """Return the answers after editing, by "case/query". Queries whose right answer has no name are omitted."""
    return {f"{case.id}/{query.id}": _text(query.gold) for case, query in queries_of(found) if query.gold.entities}


def aliases_of(found: Iterable[Case]) -> dict[str, tuple[str, ...]]:
    """Return label of an answer to its aliases, of all cases."""
    aliases: dict[str, dict[str, None]] = {}
    for _case, query in queries_of(found):
        for gold in (query.gold, query.pre_edit):
            for entity in gold.entities if gold else ():
                aliases.setdefault(entity.label, {}).update(dict.fromkeys(entity.aliases))
    return {label: tuple(names) for label, names in aliases.items()}


def _text(gold: Gold) -> str:
    chosen = gold.entities[:1] if gold.require == "any" else gold.entities
    return ", ".join(entity.label for entity in chosen)
