"""One evaluation on one page: prepare, ask the unedited model, edit, ask, restore, judge and score.

::

    run = prepare(request, catalog, progress)               # resolves, validates, loads the model
    folder = RunFolder.create(path, run.spec, run.files)    # a new folder, or the same run again: it resumes
    finished = evaluate(run, folder)                        # asks, judges, scores

``judge_folder`` and ``score_folder`` repeat the last two steps later, without the edited model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter

from attrs import evolve, frozen

from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.load import read_report
from ke_core.results.reported import Reported
from ke_core.results.writer import Writer
from ke_core.runner.apply import applied_edits, untouched
from ke_core.runner.concurrent import ask_together, concurrent_groups
from ke_core.runner.distributed import Planned, claimed, close_if_complete, refuse_gaps, shared
from ke_core.runner.judging import JudgeModel, judge_run, open_judge
from ke_core.runner.log import log_losses, logged, phase
from ke_core.runner.plan import Group, Stage, stages
from ke_core.runner.prepare import load_model, resolve_run
from ke_core.runner.recorded import RecordedRun, recorded_run
from ke_core.runner.recorder import Recorder
from ke_core.runner.resolve import Options
from ke_core.runner.run import EvalRequest, Finished, ResolvedRun
from ke_core.runner.saved_state import SavedState
from ke_core.runner.scoring import NO_OPTIONS, dataset_judge, measures_of, score_run
from ke_core.runner.sequential import ask_in_sequence
from ke_core.runner.steps import EDITED, UNEDITED_BATCH, Runner
from ke_core.runner.usage import FREE, Prices, measured_phase, since_last
from ke_core.runner.world import world
from ke_core.spec.errors import EditFailed
from ke_core.spec.protocols import LanguageModel, Progress
from ke_core.spec.results import MetricScore


def prepare(
    request: EvalRequest, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None
) -> ResolvedRun:
    """Resolve and validate everything, and load the model unless it is given. Nothing is written. Raises KEErrors."""
    with measured_phase("reading the dataset") as reading:
        run = resolve_run(request, catalog)
    with measured_phase("loading the model", progress=progress) as loading:
        run = load_model(run, request, catalog, progress, model=model)
    return evolve(run, before=(reading, loading))


def evaluate(run: ResolvedRun, folder: RunFolder, *, prices: Prices = FREE) -> Finished:
    """Ask what is not recorded, judge what is not judged, score everything.

    On the folder of a run that was interrupted, the run resumes. The folder is locked until the end: BadRun if another
    process writes to it. ``prices`` are those of a server's tokens. If several processes share the run, the first one
    judges and scores.
    """
    with claimed(folder, world()) as held, logged(run, folder) as facts:
        finished = ask_models(run, folder, prices=prices, held=held)
        facts |= {"failures": finished.failures, "skipped": finished.skipped}
        if not world().leads:
            return finished
        with phase(folder, "judging", progress=run.session.progress):
            judge_run(folder, run.cases, run.judging, held=held)
        with phase(folder, "scoring", progress=run.session.progress):
            scores = score_run(folder, run.cases, run.measures)
        folder.close()
    return evolve(finished, scores=tuple(scores))


def ask_models(run: ResolvedRun, folder: RunFolder, *, prices: Prices = FREE, held: Writer | None = None) -> Finished:
    """Ask the unedited model, then the edited ones, and record every reply. ``held``: an open writer of the folder.

    Raises KEErrors, after the model has been restored.
    """
    started, here = perf_counter(), world()
    steps = stages(run.groups, run.spec.plan) if run.spec.plan.sequential else []
    asked = [step.asked for step in steps] or run.groups
    with shared(folder, here, [*run.groups, *asked], UNEDITED_BATCH, held) as writer:
        recorder = Recorder(writer, spent=partial(since_last, run.session.model, prices))
        recorder.recall(folder.read())
        runner = Runner.of(run, recorder, asked, here)
        try:
            if run.editor_spec.needs_model:
                with phase(folder, "unedited model", run.session.model):
                    runner.ask_unedited()
            _ask_edited(runner, steps, folder)
        finally:
            recorder.add_spent()  # tokens are paid for even if the run is interrupted
            log_losses(folder, recorder)
    if here.size > 1 and here.leads:
        recorder = Recorder(writer)
        recorder.recall(folder.read())  # with the records of the other processes
        refuse_gaps(Planned.of(run.spec, run.editor_spec, run.dataset, run.groups), folder)
    skipped = sum(len(batch.skipped) for batch in recorder.batches.values())
    return Finished(failures=recorder.failures, skipped=skipped, seconds=perf_counter() - started)


def _ask_edited(runner: Runner, steps: Sequence[Stage], folder: RunFolder) -> None:
    """Ask the edited models: group by group, several groups together, or step by step in a sequential run."""
    known = {*runner.recorder.batches}
    runner.advance(EDITED, 0)
    with phase(folder, "edited model", runner.run.session.model) as measured:
        try:
            if steps:
                ask_in_sequence(runner, steps, SavedState.of(folder, runner.run, world().rank))
            for groups in () if steps else concurrent_groups(runner):
                if len(groups) > 1:
                    ask_together(runner, groups)
                else:
                    _ask_group(runner, groups[0])
        finally:
            new = [batch for name, batch in runner.recorder.batches.items() if name not in known]
            seconds = round(sum(batch.seconds for batch in new), 3)
            measured.facts |= {"edits": sum(batch.edits for batch in new), "edit_seconds": seconds}


def _ask_group(runner: Runner, group: Group) -> None:
    """Apply the edits of a group, ask its cases, and restore the model. A failed edit is recorded."""
    pending = runner.begin(group)
    if pending is None:
        return
    try:
        with (
            untouched(runner.run.session.model, runner.before),
            applied_edits(runner.run, pending.valid.edits) as applied,
        ):
            runner.recorder.add_batch(applied.on(pending.batch))
            runner.ask_cases(group, pending.cases, pending.bank, applied.edited)
        runner.recorder.count_edit()
    except EditFailed as error:
        runner.fail(pending, error)


def judge_folder(
    folder: RunFolder,
    catalog: Catalog,
    *,
    name: str = "",
    options: Options = NO_OPTIONS,
    data_dir: str = "",
    asking: JudgeModel | None = None,
    known: RecordedRun | None = None,
) -> int:
    """Judge the recorded replies with the judge ``name``, by default the dataset's. ``asking``: the judge's model.

    ``known``: the dataset of the run, if it has been read. Returns the number of lines that were judged. It is 0 if
    this judge, with these options and this model, has judged all of them. The judge counts as the last one even then.
    """
    known = known or recorded_run(folder, catalog, data_dir)
    chosen = dataset_judge(catalog, known.spec, name, options)
    reject_unused(options, [chosen.spec])
    judge = open_judge(chosen, catalog, asking)
    spent = partial(asking.since_last, judge.session.model) if asking and judge.session else tuple
    return judge_run(folder, known.cases, judge, spent=spent)


def score_folder(
    folder: RunFolder,
    catalog: Catalog,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    options: Options = NO_OPTIONS,
    data_dir: str = "",
    known: RecordedRun | None = None,
) -> list[MetricScore]:
    """Write ``scores.json`` from the records. ``known`` as for ``judge_folder``.

    Without ``metrics``: the metrics that belong to ``judge``, else the dataset's and those with requests in this run.
    Without ``judge``: the last one.
    """
    known = known or recorded_run(folder, catalog, data_dir)
    measures = measures_of(folder, catalog, known.spec, metrics=metrics, judge=judge, options=options)
    with folder.writing():
        scores = score_run(folder, known.cases, measures, judge=judge)
        close_if_complete(folder, catalog, known)
    return scores


def load_report(folder: RunFolder, catalog: Catalog, *, data_dir: str = "") -> Reported:
    """Return the report of a run. Score the run from its records if that has not been done. Raises BadRun."""
    if not (folder.path / SCORES).exists():
        score_folder(folder, catalog, data_dir=data_dir)
    return read_report(folder, catalog)


@frozen(kw_only=True)
class LoadedRuns:
    """Runs and their reports. ``folders`` and ``reported`` are parallel."""

    folders: tuple[RunFolder, ...]
    reported: tuple[Reported, ...]


def load_runs(folders: Sequence[RunFolder], catalog: Catalog, *, data_dir: str = "") -> LoadedRuns:
    """Load the reports of several runs, as ``load_report`` does. Raises BadRun."""
    reported = tuple(load_report(folder, catalog, data_dir=data_dir) for folder in folders)
    return LoadedRuns(folders=tuple(folders), reported=reported)
