"""Find unfinished run folders and remove their files, unless a process is writing to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

from attrs import frozen

from ke_core.app import (
    DAMAGED,
    LOG,
    PART,
    RECORDS,
    RUN,
    SCORES,
    SEAL,
    Batch,
    Replied,
    RunFolder,
    open_writer,
    read_records,
    runs_in,
)
from ke_core.plugin import BadRun, file_errors

OURS = (SCORES, SEAL, DAMAGED, PART.format(rank="*"), RECORDS, LOG, RUN)
"""``run.json`` is deleted last, so that an interrupted removal can be repeated."""


@frozen(kw_only=True)
class Removable:
    """A run folder, the reason to remove it, and its bytes."""

    path: Path
    why: str
    size: int

    def remove(self) -> str:
        """Delete the files of the run, and the folder if it is empty then. Return the reason if the run is kept.

        It is kept if a process is writing to it, or has finished it meanwhile. Raises KEError if a file cannot be
        deleted.
        """
        with ExitStack() as held:
            try:
                for file in (self.path / RECORDS, *self.path.glob(PART.format(rank="*"))):
                    held.enter_context(open_writer(file))
            except BadRun:
                return "in use"
            if not _why(self.path):
                return "finished meanwhile"
            with file_errors(f"cannot remove {self.path}"):
                for file in _files(self.path):
                    file.unlink(missing_ok=True)
        with suppress(OSError):  # it contains other files, which are kept
            self.path.rmdir()
        return ""


def removable(root: Path) -> Iterator[Removable]:
    """Yield the unfinished and the damaged runs in ``root``."""
    for path, _found in runs_in(root):
        if why := _why(path):
            yield Removable(path=path, why=why, size=sum(file.stat().st_size for file in _files(path)))


def unfinished(folder: RunFolder) -> str:
    """Return the progress of an unfinished run. Empty for a complete one."""
    if folder.complete:
        return ""
    edits: dict[str, int] = {}  # by batch, because several processes may record the same one
    evaluated: set[str] = set()
    try:
        for record in chain(folder.read(), *map(read_records, folder.parts())):
            if isinstance(record, Batch):
                edits[record.batch] = record.edits
            if isinstance(record, Replied) and record.phase == "after":
                evaluated.add(record.case)
    except BadRun as error:
        return f"damaged: {error.message}"
    return f"unfinished: {sum(edits.values()):,} edits applied, {len(evaluated):,} cases evaluated"


def _why(path: Path) -> str:
    """Return why a run may be removed. Empty if it may not, or if it cannot be read."""
    try:
        return unfinished(RunFolder.open(path))
    except BadRun:
        return ""


def _files(path: Path) -> list[Path]:
    """Return the files of the run in the order of their deletion, after partial files of killed processes."""
    torn = [file for name in OURS for file in path.glob(f".{name}.*")]
    return [file for file in (*torn, *(file for name in OURS for file in path.glob(name))) if file.is_file()]
