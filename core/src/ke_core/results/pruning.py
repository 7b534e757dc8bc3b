"""Find unfinished run folders and remove their files, unless a process is writing to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

from attrs import frozen

from ke_core.results.folder import DAMAGED, PART, RECORDS, RUN, SCORES, RunFolder, read_records, runs_in
from ke_core.results.lines import LOG
from ke_core.results.seal import SEAL
from ke_core.results.writer import open_writer
from ke_core.spec.errors import BadRun
from ke_core.spec.records import Batch, Replied
from ke_core.storage.files import file_errors

OURS = (SCORES, SEAL, DAMAGED, PART.format(rank="*"), RECORDS, LOG, RUN)
"""``run.json`` goes last: a folder that is left half-way is still one that can be removed."""


@frozen(kw_only=True)
class Removable:
    """A run folder, why it may go, and the bytes that go with it. ``named``: whatever it is."""

    path: Path
    why: str
    size: int
    named: bool = False

    def remove(self) -> str:
        """Delete our files, and the folder if nothing else is in it; if it is left, why.

        It is left where a process is writing to it, or has finished it meanwhile. Raises KEError where a file cannot
        be deleted.
        """
        with ExitStack() as held:
            try:
                for file in (self.path / RECORDS, *self.path.glob(PART.format(rank="*"))):
                    held.enter_context(open_writer(file))
            except BadRun:
                return "in use"
            if not (self.named or _why(self.path)):
                return "finished meanwhile"
            with file_errors(f"cannot remove {self.path}"):
                for file in _files(self.path):
                    file.unlink(missing_ok=True)
        with suppress(OSError):  # somebody's own files are in it: they stay
            self.path.rmdir()
        return ""


def removable(root: Path) -> Iterator[Removable]:
    """The runs under ``root`` that are unfinished, or whose records are damaged."""
    for path, _found in runs_in(root):
        if why := _why(path):
            yield _made(path, why)


def unreadable(root: Path) -> Iterator[BadRun]:
    """Yield the errors of each ``run.json`` under ``root`` that cannot be read.

    Another program may have written it, and the run may be finished, so it is removed only by name.
    """
    yield from (found for _path, found in runs_in(root) if isinstance(found, BadRun))


def named_runs(paths: Iterable[Path]) -> Iterator[Removable]:
    """Yield the runs that the user names, finished or not. Raises BadRun for a folder without a run."""
    for path in paths:
        if not RunFolder.is_one(path):
            raise BadRun(f"{path} is not a run folder: it has no {RUN}", hint="ke runs lists the runs there are")
        yield _made(path, "named", named=True)


def unfinished(folder: RunFolder) -> str:
    """Return the progress of an unfinished run. Empty for a complete one."""
    if folder.complete:
        return ""
    edits: dict[str, int] = {}  # by batch: of several processes each may have made the same
    asked: set[str] = set()
    try:
        for record in chain(folder.read(), *map(read_records, folder.parts())):
            if isinstance(record, Batch):
                edits[record.batch] = record.edits
            if isinstance(record, Replied) and record.phase == "after":
                asked.add(record.case)
    except BadRun as error:
        return f"damaged: {error.message}"
    return f"unfinished: {sum(edits.values()):,} edits made, {len(asked):,} cases asked after them"


def _why(path: Path) -> str:
    """Why a run may go, as it is now; empty if it may not, or cannot be told to be one."""
    try:
        return unfinished(RunFolder.open(path))
    except BadRun:
        return ""


def _made(path: Path, why: str, *, named: bool = False) -> Removable:
    return Removable(path=path, why=why, size=sum(file.stat().st_size for file in _files(path)), named=named)


def _files(path: Path) -> list[Path]:
    """Our own, in the order in which they go, and first what a process killed while it wrote one left behind."""
    torn = [file for name in OURS for file in path.glob(f".{name}.*")]
    return [file for file in (*torn, *(file for name in OURS for file in path.glob(name))) if file.is_file()]
