"""Safetensors files with a checksum, so that damaged files are detected and computed again.

The checksum is in the metadata: the SHA-256 of the whole file with zeros in its place. Any software can read the
file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ke_core.plugin import BadData, warn, write_atomic

CHUNK = 1 << 20
KEY = "file_sha256"
BLANK = "0" * 64
STAMP = re.compile(rb'"' + KEY.encode() + rb'":"([0-9a-f]{64})"')
AGAIN = "it will be computed again"
LENGTH = 8  # bytes of a safetensors file that contain the length of its header


def write_tensors(path: Path, tensors: Mapping[str, Any], about: Mapping[str, str], save: Callable[..., None]) -> None:
    """Write a safetensors file with a checksum atomically. ``save``: the library's ``save_file``."""

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
    """Write NumPy arrays like ``write_tensors``."""
    from safetensors.numpy import save_file  # noqa: PLC0415  imports numpy, which registering a plugin must not

    write_tensors(path, arrays, about or {}, save_file)


def read_arrays(path: Path) -> dict[str, Any] | None:
    """Read a file of ``write_arrays``; None if it is missing, or damaged, with a warning."""
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
    """Return whether ``path`` is usable. Warns if it exists and is damaged."""
    try:
        wrong = damage(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        wrong = (error.strerror or str(error)).lower()
    if wrong:
        warn(BadData(f"{path} is damaged: {wrong}", hint=AGAIN))
    return not wrong


def _header(stream: Any) -> bytes:
    """Return the header; shorter if the file is truncated."""
    size = int.from_bytes(stream.read(LENGTH), "little")
    header: bytes = stream.read(min(size, os.fstat(stream.fileno()).st_size))
    return header


def _sum(stream: Any, found: re.Match[bytes]) -> str:
    """Return the SHA-256 of the file with zeros in place of the checksum found in its header."""
    start = LENGTH + found.start(1)
    stream.seek(0)
    content = hashlib.sha256(stream.read(start))
    content.update(BLANK.encode())
    stream.seek(len(BLANK), os.SEEK_CUR)
    while part := stream.read(CHUNK):
        content.update(part)
    return content.hexdigest()
