"""Sequential editing: apply batch after batch, without restoring the model in between.

Requests that are recorded are not sent again. While the run goes on, the state of its editor is saved in the folder
``editor-state`` of the run, one file for each process. The file's name holds the process, the last step whose edits are
in it, and the digest of the edited model. A run that was killed loads this file and applies the remaining edits. If the
editor saves no state, the run applies every edit again, in order: without the edits of a finished batch it would be
another experiment. The folder is removed when all requests are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import perf_counter

from attrs import define, evolve, field

from ke_core.engine.passthrough import PassthroughModel
from ke_core.results.folder import RunFolder
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.plan import Stage
from ke_core.runner.run import ResolvedRun
from ke_core.runner.steps import EDITED, Runner
from ke_core.spec.errors import EditFailed, KEError
from ke_core.spec.facts import Edit, EditBank
from ke_core.spec.results import Failure
from ke_core.storage.files import remove_files, write_atomic


def ask_in_sequence(runner: Runner, saved: SavedState) -> None:
    """Apply the edits of every stage and ask its cases. The model is restored at the end."""
    stages = runner.run.stages
    last = max((stage.step for stage in stages if runner.is_open(stage.asked)), default=0)
    if not last:
        saved.remove()
        return
    with untouched(runner.run.session.model, runner.before), EditApplier.of(runner.run) as applier:
        asked = frozenset[str]().union(*(stage.asked.asked for stage in stages))
        progress = _Progress(runner=runner, applier=applier, asked=asked)
        made = saved.restore(applier, _restorable(runner, stages))
        for stage in stages[:made]:
            progress.recall(stage)
        if made:
            progress.ask(stages[made - 1])
        for stage in stages[made:last]:
            progress.add(stage)
            saved.write(stage.step, applier)
            progress.ask(stage)
    saved.remove()


def _restorable(runner: Runner, stages: Sequence[Stage]) -> frozenset[int]:
    """Return the steps from which the run can resume: every request of the steps before is recorded."""
    found: set[int] = set()
    for stage in stages:
        if stage.asked.id not in runner.recorder.batches:
            break
        found.add(stage.step)
        if runner.is_open(stage.asked):
            break
    return frozenset(found)


@define
class _Progress:
    """The edits that are applied, the skipped cases, and the cases whose edits failed, in all stages so far.

    ``asked``: the cases that any stage asks.
    """

    runner: Runner
    applier: EditApplier
    asked: frozenset[str]
    bank: dict[str, Edit] = field(factory=dict)
    skipped: dict[str, str] = field(factory=dict)
    failed: dict[str, Failure] = field(factory=dict)

    def recall(self, stage: Stage) -> None:
        """Count the edits of ``stage``, which were applied before the run was killed and are active."""
        runner, valid = self.runner, self.runner.valid_edits(stage.group)
        self.skipped |= valid.skipped
        runner.edited = True
        if why := runner.recorder.batches[stage.asked.id].failed:
            self._fail(stage, valid.skipped, Failure(error=EditFailed.__name__, message=why))
        else:
            self.bank |= {edit.id: edit for edit in valid.edits}

    def _fail(self, stage: Stage, skipped: Mapping[str, str], failure: Failure) -> None:
        self.failed |= {case.id: failure for case in stage.group.edited if case.id not in skipped}

    def add(self, stage: Stage) -> None:
        """Apply the edits of ``stage`` and record them."""
        runner, valid = self.runner, self.runner.valid_edits(stage.group)
        self.skipped |= valid.skipped
        batch = evolve(
            runner.batch(stage.group, evolve(valid, skipped=self.skipped), stage.asked),
            step=stage.step,
            skipped={case: why for case, why in valid.skipped.items() if case in self.asked},
            first=not runner.edited,
        )
        if valid.edits:
            runner.edited = True
            try:
                applied = self.applier.add(valid.edits)
            except EditFailed as error:
                failure = Failure(error=type(error).__name__, message=str(error))
                self._fail(stage, valid.skipped, failure)
                batch = evolve(batch, failed=str(error))
                runner.recorder.count_edit(failure)
            else:
                runner.recorder.count_edit()
                self.bank |= {edit.id: edit for edit in valid.edits}
                batch = applied.on(batch)
        runner.recorder.add_batch(batch)

    def ask(self, stage: Stage) -> None:
        """Send the requests of ``stage`` that are not recorded."""
        runner, group = self.runner, stage.asked
        if not group.asked:
            return
        bank = EditBank(self.bank.values())
        for case in runner.share.cases(group):
            if case.id in self.failed:
                units = runner.open_units(evolve(group, asked=frozenset({case.id})), self.skipped, bank)
                runner.recorder.add_failed(group.id, units, self.failed[case.id])
        mine = runner.share.cases(group)
        cases = [case for case in mine if case.id not in self.skipped and case.id not in self.failed]
        runner.ask_cases(group, cases, bank, self.applier.edited or PassthroughModel(runner.run.session))
        runner.advance(EDITED, len(mine) - len(cases))


FOLDER = "editor-state"
NAME = re.compile(r"(?P<rank>\d+)\.(?P<step>\d+)\.(?P<digest>\w+)\Z")
MOST = 0.1
"""The fraction of its time that a run spends on saving, at most."""


@define(kw_only=True)
class SavedState:
    """The saved states of process ``rank``. ``next``: the earliest time of the next save, by ``perf_counter``."""

    run_folder: RunFolder
    run: ResolvedRun
    rank: int
    next: float = field(default=0.0, init=False)

    @property
    def folder(self) -> Path:
        """The folder of the saved states."""
        return self.run_folder.path / FOLDER

    def restore(self, applier: EditApplier, steps: Collection[int]) -> int:
        """Load the saved edited model of one of ``steps``. Return that step, or 0 if none is saved.

        If a file cannot be loaded, or the loaded model differs from the saved one, the reason is logged.
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
        if edited is None or started < self.next or self.run.editor_spec.load is None:
            return
        old = [path for path, _step, _digest in self._files()]
        path = self.folder / f"{self.rank}.{step}.{self.run.session.model.digest}"
        write_atomic(path, edited.save)
        remove_files(one for one in old if one != path)
        ended = perf_counter()
        self.next = ended + (ended - started) / MOST

    def remove(self) -> None:
        """Delete the files, because nothing is left to resume."""
        # hidden files are those of a process that was killed while it saved
        remove_files([*(path for path, *_rest in self._files()), *self.folder.glob(f".{self.rank}.*")])
        with suppress(OSError):  # it has files of another process, or it never existed
            self.folder.rmdir()

    def _files(self) -> list[tuple[Path, int, str]]:
        """Return each file of this process with its step and digest, the last step first."""
        if not self.folder.is_dir():
            return []
        found = [(path, NAME.match(path.name)) for path in self.folder.iterdir()]
        mine = [(path, int(m["step"]), m["digest"]) for path, m in found if m and int(m["rank"]) == self.rank]
        return sorted(mine, key=lambda one: one[1], reverse=True)

    def _log(self, path: Path, why: str) -> None:
        message = f"{path} was not used, so every edit is made again: {why}"
        self.run_folder.log("warning", what="saved editor state", message=message)
