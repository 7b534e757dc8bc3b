"""Artifacts with a checksum of their own: a damaged file is noticed when it is read, and computed again.

A safetensors file holds the checksum in its metadata: the SHA-256 of the whole file with zeros in its place, so that
every byte counts and the file is still one that any software reads. A JSON artifact is ``{"content", "sha256"}``.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.spec.codec import canonical, digest
from ke_core.spec.errors import BadData, DamagedArtifact
from ke_core.storage.files import CHUNK, file_errors, write_atomic
from ke_core.storage.json_reading import loads

KEY = "file_sha256"
BLANK = "0" * 64
STAMP = re.compile(rb'"' + KEY.encode() + rb'":"([0-9a-f]{64})"')
AGAIN = "it is computed again"
LENGTH = 8  # bytes of a safetensors file that say how long its header is


def write_tensors(path: Path, tensors: Mapping[str, Any], about: Mapping[str, str], save: Callable[..., None]) -> None:
    """Write a safetensors file with a checksum, whole or not at all. ``save``: the library's ``save_file``."""

    def write(new: Path) -> None:
        save(dict(tensors), new, metadata={**about, KEY: BLANK})
        with new.open("rb+") as stream:
            found = STAMP.search(_header(stream))
            assert found is not None
            total = _sum(stream, found)
            stream.seek(LENGTH + found.start(1))
            stream.write(total.encode())

    write_atomic(path, write)


def write_arrays(path: Path, arrays: Mapping[str, Any], about: Mapping[str, str] | None = None) -> None:
    """Write NumPy arrays as ``write_tensors`` does."""
    from safetensors.numpy import save_file  # noqa: PLC0415  imports numpy, which registering a plugin must not

    write_tensors(path, arrays, about or {}, save_file)


def read_arrays(path: Path) -> dict[str, Any] | None:
    """Read what ``write_arrays`` has written; None if it is missing, or damaged, which the user is told."""
    if not is_intact(path):
        return None
    from safetensors.numpy import load_file  # noqa: PLC0415  as above

    return dict(load_file(path))


def damage(path: Path) -> str:
    """Return what is wrong with a file of ``write_tensors``; empty if its checksum matches. Raises OSError."""
    with path.open("rb") as stream:
        found = STAMP.search(_header(stream))
        if found is None:
            return "it has no checksum"
        return "" if _sum(stream, found) == found[1].decode() else "its checksum does not match"


def is_intact(path: Path) -> bool:
    """Return whether ``path`` can be used; if it is there and damaged, warn that it is computed again."""
    try:
        wrong = damage(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        wrong = (error.strerror or str(error)).lower()
    if wrong:
        warn(BadData(f"{path} is damaged: {wrong}", hint=AGAIN))
    return not wrong


def write_value(path: Path, content: Any) -> None:
    """Write a JSON value with its checksum, whole or not at all."""
    write_atomic(path, _bytes({"content": content, "sha256": _digest(content)}))


def read_value(path: Path, *, hint: str) -> Any:
    """Read what ``write_value`` has written; None if it is missing. Raises BadData if it is damaged."""
    if not path.exists():
        return None
    try:
        raw = loads(path.read_bytes(), surrogates=True)
        whole = raw.keys() == {"content", "sha256"} and _digest(raw["content"]) == raw["sha256"]
    except (AttributeError, OSError, ValueError):
        whole = False
    if not whole:
        raise BadData(f"{path} is damaged: its checksum does not match", hint=hint)
    return raw["content"]


def warn(error: BadData) -> None:
    """Tell the user in one line that an artifact is damaged, and what happens now."""
    warnings.warn(DamagedArtifact(f"{error.message}; {error.hint}"), stacklevel=3)


def _bytes(value: Any) -> bytes:
    """Return canonical JSON; half of a surrogate pair, which a model may generate, is written as JSON's escape."""
    from ke_core.spec.codec import canonical  # noqa: PLC0415  imports cattrs, which registering a plugin must not

    return canonical(value).encode("utf-8", "backslashreplace")


def _digest(content: Any) -> str:
    return hashlib.sha256(_bytes(content)).hexdigest()


def _header(stream: Any) -> bytes:
    """Return the header; less where the file is shorter than it says."""
    size = int.from_bytes(stream.read(LENGTH), "little")
    header: bytes = stream.read(min(size, os.fstat(stream.fileno()).st_size))
    return header


def _sum(stream: Any, found: re.Match[bytes]) -> str:
    """Return the SHA-256 of the file with zeros for the checksum that was found in its header."""
    start = LENGTH + found.start(1)
    stream.seek(0)
    content = hashlib.sha256(stream.read(start))
    content.update(BLANK.encode())
    stream.seek(len(BLANK), os.SEEK_CUR)
    while part := stream.read(CHUNK):
        content.update(part)
    return content.hexdigest()


@frozen
class ArtifactStore:
    """``Artifacts`` in a folder: ``root/kind/<hash of the key><suffix>``, the key itself readable beside it.

    A key that names a model names its weights (``model.digest``), never a path: two checkpoints in folders
    of one name must not share a file.
    """

    root: Path

    def path(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path:
        """Where that artifact lives. Raises TypeError for a key that is not JSON, KEError for a full disk."""
        folder = self.root / kind
        with file_errors(f"cannot write {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        name = digest(key)[:32]
        beside = folder / f"{name}.key.json"
        if not beside.exists():
            write_atomic(beside, canonical(key).encode())
        return folder / f"{name}{suffix}"
