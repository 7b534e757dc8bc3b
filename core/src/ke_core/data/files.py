"""A file that a benchmark is read from: what its publishers say of it."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class DataFile:
    """One published file, looked for as ``FOLDER/name`` and ``FOLDER/family/name``.

    ``url``: where it is published. ``sha256`` (hex) and ``size`` (bytes) are of the file as published; empty and 0
    where nobody could check them, and then nothing is fetched.
    """

    family: str
    name: str
    url: str = ""
    sha256: str = ""
    size: int = 0

    @property
    def pinned(self) -> bool:
        """Whether it can be fetched: it is known where from, and what must come."""
        return bool(self.url and self.sha256)
