"""What ``ke datasets`` does with a dataset as a whole: write it to a file, check it, fetch what it is read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from ke_core.data.files import DataFile
from ke_core.data.queries import Case
from ke_core.data.soundness import Problem, Soundness
from ke_core.datasets.case_files import CaseHeader, write_cases
from ke_core.errors import BadData
from ke_core.files import data_places, find_data, git_blob_id, sha256_of
from ke_core.protocols import Dataset
from ke_core.specs import DatasetSpec

BLOB_DIGITS = 8
"""Digits of a Git blob id by which a published file is recognized."""


def export(dataset: Dataset, spec: DatasetSpec, path: Path) -> CaseHeader:
    """Write every case of ``dataset`` to ``path`` (``ke_core.datasets.case_files``), and return its header.

    The dataset is gone through twice, so that no case is held: once to count, once to write.
    """
    about, aspects, number = dataset.info(), dict[str, None](), 0
    for case in dataset.cases():
        number += 1
        aspects |= dict.fromkeys(probe.aspect for probe in case.probes)
    header = CaseHeader(
        name=spec.name,
        title=about.title,
        licence=about.licence,
        source=about.source,
        cite=about.cite,
        styles=spec.styles,
        aspects=tuple(aspects),
        judge=spec.judge,
        metrics=spec.metrics,
        cases=number,
        sha256=about.sha256,
    )
    write_cases(path, header, dataset.cases())
    return header


@frozen(kw_only=True)
class Validated:
    """How many cases were read, and what is wrong with them."""

    cases: int
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        """How many of the problems are errors."""
        return sum(problem.level == "error" for problem in self.problems)


def validate(found: Iterable[Case | BadData], *, known_flaws: frozenset[str] = frozenset()) -> Validated:
    """Check every case; what could not be read as one is an error too. ``known_flaws``: as in ``DatasetInfo``."""
    check, unread, number = Soundness(known_flaws=known_flaws), list[Problem](), 0
    for one in found:
        if isinstance(one, BadData):
            unread.append(Problem(level="error", rule="record", what=str(one)))
        else:
            number += 1
            check.add(one)
    return Validated(cases=number, problems=(*unread, *check.problems()))


def readable(dataset: Dataset) -> Iterator[Case | BadData]:
    """Every case up to the first that cannot be read, and then why. Raises BadData where there is none before it."""
    some = False
    try:
        for case in dataset.cases():
            some = True
            yield case
    except BadData as wrong:
        if not some:
            raise
        yield wrong


@frozen(kw_only=True)
class Here:
    """A data file on this machine.

    ``is_published``: whether it is the published file; None where nothing is known of that. ``version``: who published
    it.
    """

    path: Path
    size: int
    sha256: str
    is_published: bool | None = None
    version: str = ""


def here(file: DataFile, explicit: Path | None = None) -> Here | None:
    """The file as it is on this machine; nothing is fetched."""
    path = next((path for path in data_places(file.family, file.name, explicit) if path.is_file()), None)
    if path is None:
        return None
    sha256, blob = sha256_of(path), git_blob_id(path)[:BLOB_DIGITS]
    known = file.sha256 or file.blobs
    return Here(
        path=path,
        size=path.stat().st_size,
        sha256=sha256,
        is_published=sha256 == file.sha256 or blob in file.blobs if known else None,
        version=file.blobs.get(blob, ""),
    )


def get(file: DataFile, explicit: Path | None = None) -> Here:
    """The file, fetched into the cache if it is nowhere. Raises BadData: where it is published, where to put it."""
    find_data(file.family, file.name, explicit=explicit, url=file.url, sha256=file.sha256, size=file.size)
    found = here(file, explicit)
    assert found is not None
    return found
