"""The state file of ``ke serve``: a header line, then the active edits. Only one server may have it open.

The user's input (``--edits``) is never written. The header holds the input's SHA-256, so that a restart can tell
whether the input has changed since the state file was created.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from ke_core.app import STATE_FIELD, read_lines
from ke_core.plugin import BadConfig, KEError, file_errors, sha256_of, write_atomic
from ke_plugin_serve.active_edits import ActiveEdits, lines_of, read_bank

try:
    import fcntl
except ImportError:  # pragma: no cover  Windows: two servers may then share a file without noticing
    fcntl = None  # type: ignore[assignment]

VERSION, INPUT = 1, "input_sha256"


class ChangedMeanwhile(KEError):
    """Another program has written to the file."""


@define
class StateFile:
    """The file at ``path``.

    ``input_sha256``: of the input that the file was created from; empty without one. ``saved``: the file holds edits.
    """

    path: Path
    input_sha256: str
    saved: bool
    _seen: bytes | None

    def write(self, bank: ActiveEdits) -> None:
        """Save the active edits. Raises ChangedMeanwhile and other KEErrors; the file is then unchanged."""
        if self.path.exists() and _digest(self.path) != self._seen:
            raise ChangedMeanwhile(
                f"{self.path} was changed by another program, and saving would overwrite that",
                hint="start ke serve again, which reads it; edits are added with ke serve edits add --edits FILE",
            )
        header = f"{json.dumps({STATE_FIELD: VERSION, INPUT: self.input_sha256})}\n".encode()
        content = header + lines_of(bank)
        write_atomic(self.path, content)
        self._seen = hashlib.sha256(content).digest()


def first_edits(state: StateFile | None, edits: Path | None) -> tuple[ActiveEdits, str]:
    """Return the edits to start with, and a line for the user if they come from the state file. Raises BadData."""
    given = read_bank(edits) if edits else ActiveEdits()
    if state is None or not state.saved:
        return given, ""
    bank = read_bank(state.path)
    if edits is None:
        return bank, f"using the state file {state.path}"
    if _sha256(edits) == state.input_sha256:
        return bank, f"using the state file {state.path}, not {edits}"
    active = {one.statement_key for one in bank.edits.values()}
    missing = sum(one.statement_key not in active for one in given.edits.values())
    return bank, (
        f"using the state file {state.path}, but {edits} has changed since that was created: {missing} of its "
        f"{len(given)} edits are not active. To add them: ke serve edits add --edits {edits}. "
        f"To start from {edits} again: delete the state file."
    )


@contextmanager
def held(path: Path, edits: Path | None) -> Iterator[StateFile]:
    """Lock the state file while the context is open.

    Raises BadConfig if the file is not a state file, KEError if another server has it.
    """
    lock = path.with_name(f".{path.name}.lock")
    with file_errors(f"cannot write {lock}"):
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("ab")
    with stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise KEError(
                    f"another ke serve uses the state file {path}", hint="give each its own --state"
                ) from error
        saved = path.exists() and path.stat().st_size > 0
        yield StateFile(path, _input_of(path) if saved else _sha256(edits), saved, _digest(path))


def _input_of(path: Path) -> str:
    """Return the input's SHA-256 from the header of a state file. Raises BadConfig, BadData."""
    raw, _place = next(read_lines(path), ({}, None))
    found = raw.get(INPUT)
    if raw.get(STATE_FIELD) != VERSION or not isinstance(found, str):
        raise BadConfig(
            f"{path} is not a state file of ke serve, and would be overwritten",
            hint="pass a file of edits with --edits: it is only read; --state names a file of the server's own",
        )
    return found


def _sha256(edits: Path | None) -> str:
    return sha256_of(edits) if edits is not None and edits.is_file() else ""


def _digest(path: Path) -> bytes | None:
    with file_errors(f"cannot read {path}"):
        return hashlib.sha256(path.read_bytes()).digest() if path.exists() else None
