"""The source of a dataset: its published files, their checksums, and printed figures."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen(kw_only=True)
class DataFile:
    """One published file, looked for as ``FOLDER/name`` and ``FOLDER/family/name``.

    ``url``: where it is published. ``sha256`` (hex) and ``size`` (bytes): of the published file; empty and 0 if they
    could not be checked, and then the file is not fetched. ``blobs``: the first 8 digits of the Git blob id of each
    published version, and its publisher.
    """

    family: str
    name: str
    url: str = ""
    sha256: str = ""
    size: int = 0
    blobs: Mapping[str, str] = field(factory=dict)

    @property
    def pinned(self) -> bool:
        """Whether the file can be fetched: its address and its checksum are known."""
        return bool(self.url and self.sha256)


Victims = tuple[int, int]
"""The number of contaminated cases, and of contaminated sub-questions."""


@frozen(kw_only=True)
class PublishedAudit:
    """Published figures to compare with those of ``ke audit``. ``source``: where they are printed.

    ``on_unedited`` and ``on_edited``: from the number of edited cases to the contaminated ones among the unedited and
    among the edited cases. ``seed``: of the sample of edited cases. ``duplicates``: cases that repeat another one.
    ``missing``: cases whose questions omit a hop of their chain.
    """

    source: str
    seed: int = 100
    on_unedited: Mapping[int, Victims] = field(factory=dict)
    on_edited: Mapping[int, Victims] = field(factory=dict)
    missing: int | None = None
    duplicates: int | None = None


@frozen(kw_only=True)
class DatasetInfo:
    """Source, license and published counts of a dataset.

    ``sha256``: of the content that was read. ``published``: from names of ``ke datasets stats`` to printed counts.
    ``files``: published files, for ``ke datasets fetch``; none if the package contains the data. ``audit``: published
    flaws. ``known_flaws``: rules of ``ke datasets validate`` that are only warnings for this dataset.
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
