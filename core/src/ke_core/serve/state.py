"""The file that remembers the edits in force: one server has it at a time, and writes over nobody's changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from ke_core.errors import KEError
from ke_core.files import explained
from ke_core.serve.bank import Bank, write_bank

try:
    import fcntl
except ImportError:  # pragma: no cover  Windows: two servers may then share a file without noticing
    fcntl = None  # type: ignore[assignment]


class ChangedMeanwhile(KEError):
    """Somebody else has written to the file."""


@define
class State:
    """The file at ``path``, and what it held when it was read or written last; None where there was none."""

    path: Path
    _seen: bytes | None

    def write(self, bank: Bank) -> None:
        """Write what is in force. Raises ChangedMeanwhile, KEError, and then the file is as it was."""
        if self.path.exists() and _digest(self.path) != self._seen:
            raise ChangedMeanwhile(
                f"{self.path} has been changed beside this server, and would lose that",
                hint="start ke serve again, which reads it; edits are added with ke serve edits add --edits FILE",
            )
        write_bank(self.path, bank)
        self._seen = _digest(self.path)


@contextmanager
def held(path: Path) -> Iterator[State]:
    """The file, and other servers kept off it for as long as the context is open. Raises KEError if one has it."""
    lock = path.with_name(f".{path.name}.lock")
    with explained(f"cannot write {lock}"):
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("ab")
    with stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise KEError(
                    f"another ke serve keeps its edits in {path}", hint="give each its own --state"
                ) from error
        yield State(path, _digest(path))


def _digest(path: Path) -> bytes | None:
    with explained(f"cannot read {path}"):
        return hashlib.sha256(path.read_bytes()).digest() if path.exists() else None
