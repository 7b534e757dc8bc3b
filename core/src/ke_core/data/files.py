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
