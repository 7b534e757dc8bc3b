"""Append records safely: a killed process or a full disk loses at most the last lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ke_core.results.lines import raw_line, to_line
from ke_core.spec.errors import BadRun, KEError
from ke_core.spec.records import Record
from ke_core.storage.files import FULL, file_errors

try:
    import fcntl
except ImportError:  # pragma: no cover  Windows: no error if two processes write to one run
    fcntl = None  # type: ignore[assignment]

BLOCK = 1 << 16


class Writer:
    """The open ``records.jsonl`` of one run, see ``open_writer``."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._path = path

    def append(self, records: Iterable[Record]) -> None:
        """Append ``records`` and sync them to disk. Raises KEError as ``append_lines`` does."""
        self.append_lines([b"".join(to_line(record) for record in records)])

    def append_lines(self, blocks: Iterable[bytes]) -> None:
        """Append ``blocks`` of complete lines and sync them to disk.

        If that fails, restore the file and raise KEError.
        """
        end = self._stream.seek(0, os.SEEK_END)
        try:
            for block in blocks:
                self._write(block)
            os.fsync(self._stream.fileno())
        except OSError as error:
            with suppress(OSError):
                self._stream.truncate(end)
            full = error.errno in FULL
            raise KEError(
                f"cannot write {self._path}: {(error.strerror or str(error)).lower()}",
                hint=f"{'free some space and ' if full else ''}start the same run again: it resumes",
            ) from error

    def set_aside(self, to: Path) -> int:
        """Move the last line to the end of the file ``to`` if it is not JSON. Return its size in bytes."""
        end = self._stream.seek(0, os.SEEK_END)
        start = _whole(self._stream, end - 1)
        self._stream.seek(start)
        line = self._stream.read(end - start)
        if not line or raw_line(line) is not None:
            return 0
        with file_errors(f"cannot write {to}"):
            with to.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
            self._stream.truncate(start)
        return len(line)

    def _write(self, block: bytes) -> None:
        """Write a block without a buffer. The write after a short write raises the error."""
        rest = memoryview(block)
        while rest:
            rest = rest[self._stream.write(rest) :]


@contextmanager
def open_writer(path: Path) -> Iterator[Writer]:
    """Open ``path`` for one writer. Raises BadRun if another process has it open.

    A truncated last line, left by a killed process, is removed.
    """
    with file_errors(f"cannot write {path}"):
        stream = path.open("ab+", buffering=0)
    with stream:
        if fcntl is not None:
            _lock(stream, path)
        with file_errors(f"cannot write {path}"):
            stream.truncate(_whole(stream, stream.seek(0, os.SEEK_END)))
        yield Writer(stream, path)


def _lock(stream: BinaryIO, path: Path) -> None:
    """Lock the file until it is closed."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BadRun(
            f"another process is writing to {path.parent}",
            hint="wait until it has finished, or choose another folder with --out",
        ) from error
    except OSError as error:  # some network mounts have no locks
        raise KEError(
            f"cannot lock {path}: {(error.strerror or str(error)).lower()}",
            hint="choose a folder on a local disk with --out, or on a file system with locks (flock)",
        ) from error
    if not os.fstat(stream.fileno()).st_nlink:  # the file has been deleted
        raise BadRun(f"another process removed {path}", hint="start the same run again")


def _whole(stream: BinaryIO, end: int) -> int:
    """Return the size of the complete lines in the first ``end`` bytes of the file."""
    while end > 0:
        start = max(0, end - BLOCK)
        stream.seek(start)
        at = stream.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
