"""Which run folders came to nothing, and how they are removed: our own files, and nothing that somebody is writing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from ke_core.data.records import Batch, Replied
from ke_core.errors import BadRun
from ke_core.files import explained
from ke_core.results.folder import RECORDS, RUN, SCORES, SEAL, RunFolder, runs_in
from ke_core.results.log import LOG
from ke_core.results.writer import writing

OURS = (SCORES, SEAL, RECORDS, LOG, RUN)
"""``run.json`` goes last: a folder that is left half-way is still one that can be removed."""


@frozen(kw_only=True)
class Removable:
    """A run folder, why it may go, and the bytes that go with it."""

    path: Path
    why: str
    size: int

    def remove(self) -> bool:
        """Delete our files, and the folder if nothing else is in it; false where a process is writing to it.

        Raises KEError where a file cannot be deleted.
        """
        try:
            with writing(self.path / RECORDS), explained(f"cannot remove {self.path}"):
                for name in (*OURS, *_torn(self.path)):
                    (self.path / name).unlink(missing_ok=True)
        except BadRun:
            return False
        with suppress(OSError):  # somebody's own files are in it: they stay
            self.path.rmdir()
        return True


def removable(root: Path) -> Iterator[Removable]:
    """The unfinished and the damaged runs under ``root``."""
    for path, found in runs_in(root):
        why = f"damaged: {found.message}" if isinstance(found, BadRun) else unfinished(found)
        if why:
            yield _made(path, why)


def named_runs(paths: Iterable[Path]) -> Iterator[Removable]:
    """Runs that somebody wants to be rid of whatever they are. Raises BadRun for a folder that holds none."""
    for path in paths:
        if not RunFolder.is_one(path):
            raise BadRun(f"{path} is not a run folder: it has no {RUN}", hint="ke runs lists the runs there are")
        yield _made(path, "named")


def unfinished(folder: RunFolder) -> str:
    """How far an unfinished run got; empty for a finished one.

    One that kept no log (of an earlier ke, or imported) counts as finished once it has been scored.
    """
    if folder.finished or (not folder.logged() and (folder.path / SCORES).exists()):
        return ""
    edits, asked = 0, set()
    try:
        for record in folder.read():
            edits += record.edits if isinstance(record, Batch) else 0
            if isinstance(record, Replied) and record.phase == "after":
                asked.add(record.case)
    except BadRun as error:
        return f"damaged: {error.message}"
    return f"unfinished: {edits:,} edits made, {len(asked):,} cases asked after them"


def _made(path: Path, why: str) -> Removable:
    sizes = (file.stat().st_size for name in (*OURS, *_torn(path)) if (file := path / name).is_file())
    return Removable(path=path, why=why, size=sum(sizes))


def _torn(path: Path) -> list[str]:
    """What a process that was killed while it wrote one of our files left behind."""
    return [file.name for file in path.glob(".*") if file.name.startswith(tuple(f".{name}." for name in OURS))]
