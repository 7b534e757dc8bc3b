"""Appends records so that a killed process or a full disk costs the last few lines at most, and never an old one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ke_core.data.records import Record
from ke_core.errors import BadRun, KEError
from ke_core.files import explained
from ke_core.results.lines import to_line

try:
    import fcntl
except ImportError:  # pragma: no cover  Windows: two runs in one folder are then not noticed
    fcntl = None  # type: ignore[assignment]

BLOCK = 1 << 16


class Writer:
    """The open ``records.jsonl`` of one run; made by ``writing``."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._path = path

    def append(self, records: Iterable[Record]) -> None:
        """All of ``records`` are on the disk when this returns. Raises KEError as ``append_lines`` does."""
        self.append_lines(b"".join(to_line(record) for record in records))

    def append_lines(self, lines: bytes) -> None:
        """``lines``, each with its end, are on the disk when this returns.

        Raises KEError when they cannot be written, with the file as it was before.
        """
        end = self._stream.seek(0, os.SEEK_END)
        try:
            self._write(lines)
        except OSError as error:
            with suppress(OSError):
                self._stream.truncate(end)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise KEError(
                f"cannot write {self._path}: {(error.strerror or str(error)).lower()}",
                hint=f"{'free some space and ' if full else ''}start the same run again: it goes on where it stopped",
            ) from error

    def _write(self, lines: bytes) -> None:
        """Unbuffered: a short write is followed by the error that explains it."""
        rest = memoryview(lines)
        while rest:
            rest = rest[self._stream.write(rest) :]
        os.fsync(self._stream.fileno())


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Open ``path`` for one writer. Raises BadRun if another process has it open.

    A last line without its end was torn by a killed process; it is cut off.
    """
    with explained(f"cannot write {path}"):
        stream = path.open("ab+", buffering=0)
    with stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadRun(
                    f"another process is writing to {path.parent}",
                    hint="wait until it has finished, or choose another folder with --out",
                ) from error
        with explained(f"cannot write {path}"):
            stream.truncate(_whole(stream))
        yield Writer(stream, path)


def _whole(stream: BinaryIO) -> int:
    """The length in bytes of the part of the file that ends with its last line end."""
    end = stream.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - BLOCK)
        stream.seek(start)
        at = stream.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
