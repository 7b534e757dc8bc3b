"""The saved state of an editor in a sequential run: a run that was killed loads it and makes the remaining edits only.

The folder ``editor-state`` of the run holds one file of each process. Its name tells the process, the last step whose
edits are in it, and the digest of the edited model. The folder is removed when all requests are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from time import perf_counter

from attrs import define, field

from ke_core.results.folder import RunFolder
from ke_core.runner.apply import EditApplier
from ke_core.runner.run import ResolvedRun
from ke_core.spec.errors import KEError
from ke_core.storage.files import file_errors, write_atomic

FOLDER = "editor-state"
NAME = re.compile(r"(?P<rank>\d+)\.(?P<step>\d+)\.(?P<digest>\w+)\Z")
MOST = 0.1
"""The fraction of its time that a run spends on saving, at most."""


@define(kw_only=True)
class SavedState:
    """The files of process ``rank`` in ``folder``. ``next``: when the state is saved again, by ``perf_counter``."""

    run_folder: RunFolder
    run: ResolvedRun
    rank: int
    next: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, run_folder: RunFolder, run: ResolvedRun, rank: int) -> SavedState | None:
        """None for an editor whose edited models cannot be loaded."""
        return None if run.editor_spec.load is None else cls(run_folder=run_folder, run=run, rank=rank)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.run_folder.path / FOLDER

    def restore(self, applier: EditApplier, steps: Collection[int]) -> int:
        """Open the edited model of one of ``steps`` if it is saved. Return that step, or 0.

        A file that cannot be loaded, or gives another model than the one that was saved, is logged and not used.
        """
        load = self.run.editor_spec.load
        for path, step, digest in self._files():
            if load is None or step not in steps:
                continue
            with ExitStack() as stack:
                try:
                    edited = stack.enter_context(load(self.run.editor, self.run.session, path))
                except KEError as error:
                    self._log(path, error.message)
                    continue
                self.run.session.model.state()  # reads the weights afresh, so that the digest is right
                if self.run.session.model.digest != digest:
                    self._log(path, "it gives another model than the one that was saved")
                    continue
                applier.restore(edited, stack)
                return step
        return 0

    def write(self, step: int, applier: EditApplier) -> None:
        """Save the edited model of ``step``, unless saving has cost too much of the time so far."""
        edited, started = applier.saveable, perf_counter()
        if edited is None or started < self.next:
            return
        old = [path for path, _step, _digest in self._files()]
        path = self.folder / f"{self.rank}.{step}.{self.run.session.model.digest}"
        write_atomic(path, edited.save)
        _unlink([one for one in old if one != path])
        ended = perf_counter()
        self.next = ended + (ended - started) / MOST

    def remove(self) -> None:
        """Delete the files: nothing is left to resume."""
        _unlink([path for path, _step, _digest in self._files()])
        with suppress(OSError):  # another process has files in it, or it never existed
            self.folder.rmdir()

    def _files(self) -> list[tuple[Path, int, str]]:
        """Each file of this process with its step and digest, the last step first."""
        if not self.folder.is_dir():
            return []
        found = [(path, NAME.match(path.name)) for path in self.folder.iterdir()]
        mine = [(path, int(m["step"]), m["digest"]) for path, m in found if m and int(m["rank"]) == self.rank]
        return sorted(mine, key=lambda one: one[1], reverse=True)

    def _log(self, path: Path, why: str) -> None:
        message = f"{path} was not used, so every edit is made again: {why}"
        self.run_folder.log("warning", what="saved editor state", message=message)


def _unlink(paths: list[Path]) -> None:
    for path in paths:
        with file_errors(f"cannot remove {path}"):
            path.unlink(missing_ok=True)
