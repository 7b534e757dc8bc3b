"""A file that a benchmark is read from: where it is published and how it is recognized."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen(kw_only=True)
class DataFile:
    """One published file, looked for as ``FOLDER/name`` and ``FOLDER/family/name``.

    ``url``: where it is published. ``sha256`` (hex) and ``size`` (bytes) are of the file as published; empty and 0
    where nobody could check them, and then nothing is fetched. ``blobs``: the first 8 digits of the Git blob id of each
    published version, and who published it.
    """

    family: str
    name: str
    url: str = ""
    sha256: str = ""
    size: int = 0
    blobs: Mapping[str, str] = field(factory=dict)

    @property
    def pinned(self) -> bool:
        """Whether it can be fetched: it is known where from, and what must come."""
        return bool(self.url and self.sha256)


Victims = tuple[int, int]
"""Contaminated cases, contaminated sub-questions."""


@frozen(kw_only=True)
class PublishedAudit:
    """Printed figures, to compare with those of ``ke audit``. ``source`` says where they are printed.

    ``on_unedited`` and ``on_edited``: how many cases are edited to the victims among the others, and among themselves.
    ``seed``: the victims are of cases drawn with it. ``duplicates``: cases that repeat another. ``missing``: cases
    whose questions leave out a piece of their chain.
    """

    source: str
    seed: int = 100
    on_unedited: Mapping[int, Victims] = field(factory=dict)
    on_edited: Mapping[int, Victims] = field(factory=dict)
    missing: int | None = None
    duplicates: int | None = None


@frozen(kw_only=True)
class DatasetInfo:
    """Where a dataset comes from, and what its publisher says it holds.

    ``sha256`` is of what was read. ``published`` maps the names of ``ke datasets stats`` to printed counts. ``files``:
    what it is read from, for ``ke datasets fetch``; none where everything comes with the package. ``audit``: what
    others found wrong with it. ``known_flaws``: rules of ``ke datasets validate`` that are warnings for this dataset.
    """

    title: str
    license: str
    source: str
    cite: str = ""
    sha256: str = ""
    published: Mapping[str, int] = field(factory=dict)
    files: tuple[DataFile, ...] = ()
    audit: PublishedAudit | None = None
    known_flaws: frozenset[str] = frozenset()
