"""Find the published files of a dataset on this machine, and tell which version a file is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from attrs import frozen

from ke_core.app import count_noun
from ke_core.plugin import DataFile, data_places, sha256_of

CHUNK = 1 << 20  # bytes that are read at once

BLOB_DIGITS = 8
"""Digits of a Git blob id by which a published file is recognized."""


@frozen(kw_only=True)
class LocalFile:
    """A data file on this machine.

    ``is_published``: whether it is the published file; None if that is unknown. ``version``: who published it.
    """

    path: Path
    size: int
    sha256: str
    is_published: bool | None = None
    version: str = ""


def local_file(file: DataFile, explicit: Path | None = None) -> LocalFile | None:
    """Return the file on this machine, without downloading it. None if it is missing."""
    path = next((path for path in data_places(file.family, file.name, explicit) if path.is_file()), None)
    if path is None:
        return None
    sha256, blob = sha256_of(path), git_blob_id(path)[:BLOB_DIGITS]
    known = file.sha256 or file.blobs
    return LocalFile(
        path=path,
        size=path.stat().st_size,
        sha256=sha256,
        is_published=sha256 == file.sha256 or blob in file.blobs if known else None,
        version=file.blobs.get(blob, ""),
    )


def file_state(file: DataFile, found: LocalFile | None) -> str:
    """Return where a file is, and whether it is the published one."""
    if found is None:
        return "not on this machine"
    here = f"{found.path} ({_bytes(found.size)})"
    if found.is_published is None:
        return here
    which = found.version if found.is_published else " or ".join(file.blobs.values())
    version = f" ({which})" if which else ""
    return f"{here}: this {'is' if found.is_published else 'differs from'} the published file{version}"


def _bytes(size: int) -> str:
    return count_noun(size, "byte")


def git_blob_id(path: Path) -> str:
    """The id of a file's content in Git, in hex."""
    found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()
