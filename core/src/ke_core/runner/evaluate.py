"""One evaluation on one page: prepare, ask the unedited model, edit, ask, restore, judge and score.

::

    run = prepare(request, catalog, progress)               # resolves, validates, loads the model
    folder = RunFolder.create(path, run.spec, run.files)    # a new folder, or the same run again: it resumes
    finished = evaluate(run, folder)                        # asks, judges, scores

``judge_folder`` and ``score_folder`` repeat the last two steps later, without the edited model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter

from attrs import evolve, frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.load import read_report
from ke_core.results.reported import Reported
from ke_core.results.tally import tally_of
from ke_core.runner.apply import untouched
from ke_core.runner.concurrent import ActiveBatch, ask_together, concurrent_groups
from ke_core.runner.distributed import recording
from ke_core.runner.judging import JudgeModel, judge_run, open_judge
from ke_core.runner.log import log_losses, logged, phase
from ke_core.runner.plan import Group
from ke_core.runner.prepare import load_model, resolve_run
from ke_core.runner.recorded import RecordedRun, recorded_run
from ke_core.runner.recorder import Recorder
from ke_core.runner.resolve import Options
from ke_core.runner.run import EvalRequest, Finished, ResolvedRun
from ke_core.runner.scoring import NO_OPTIONS, dataset_judge, measures_of, score_run
from ke_core.runner.sequential import SavedState, ask_in_sequence
from ke_core.runner.steps import Runner
from ke_core.runner.usage import FREE, Prices, measured_phase, since_last
from ke_core.runner.world import world
from ke_core.spec.errors import BadRun
from ke_core.spec.protocols import LanguageModel, Progress, SupportsConcurrentSolve
from ke_core.spec.results import MetricScore


def prepare(
    request: EvalRequest, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None
) -> ResolvedRun:
    """Resolve and validate everything, and load the model unless it is given. Nothing is written. Raises KEErrors."""
    with measured_phase("reading the dataset") as reading:
        run = resolve_run(request, catalog)
    loads = model is None and run.editor_spec.needs_model
    with measured_phase("loading the model", progress=progress if loads else None) as loading:
        run = load_model(run, request, catalog, progress, model=model)
    return evolve(run, before=(reading, loading))


def evaluate(run: ResolvedRun, folder: RunFolder, *, prices: Prices = FREE) -> Finished:
    """Send the requests that are not recorded, judge the replies, and compute the scores.

    A run that was interrupted resumes in its folder. Raises BadRun if another process writes to the folder.
    ``prices`` are those of a server's tokens. If several processes share the run, the first one judges and scores.
    """
    progress = run.session.progress
    if world().leads:
        with folder.writing():  # a folder that is in use raises before anything is logged
            pass
    with logged(run, folder) as facts:
        finished = ask_models(run, folder, prices=prices)
        facts["skipped"] = finished.skipped
        if not world().leads:
            return finished
        folder.close()
        with phase(folder, "judging", progress=progress):
            judge_run(folder, run.cases, run.judging)
        with phase(folder, "scoring", progress=progress), folder.writing():
            scores = score_run(folder, run.cases, run.measures)
        facts["failures"] = failures = tally_of(folder).failed
    return evolve(finished, failures=failures, scores=tuple(scores))


def ask_models(run: ResolvedRun, folder: RunFolder, *, prices: Prices = FREE) -> Finished:
    """Ask the unedited model, then the edited ones, and record every reply. The model is restored at the end."""
    started, model = perf_counter(), run.session.model
    with recording(folder, world(), run.asked) as writer:
        recorder = Recorder(writer, spent=partial(since_last, model, prices))
        recorder.recall(folder.read())
        runner = Runner.of(run, recorder, world())
        try:
            if run.editor_spec.needs_model:
                with phase(folder, "unedited model", model):
                    runner.ask_unedited()
            with phase(folder, "edited model", model, facts=recorder.edit_costs):
                if run.stages:
                    ask_in_sequence(runner, SavedState(run_folder=folder, run=run, rank=world().rank))
                else:
                    for groups in concurrent_groups(runner):
                        _ask_edited(runner, groups)
        finally:
            recorder.add_spent()  # tokens are charged even if the run is interrupted
            log_losses(folder, recorder)
    if world().size > 1 and world().leads:
        recorder = Recorder(writer)
        recorder.recall(folder.read())  # with the merged records of the other processes
    skipped = sum(len(batch.skipped) for batch in recorder.batches.values())
    return Finished(skipped=skipped, seconds=perf_counter() - started)


def _ask_edited(runner: Runner, groups: Sequence[Group]) -> None:
    """Apply the edits of each group, ask its cases, and restore the model.

    Edited models of several groups are asked concurrently: their editor leaves the weights unchanged.
    """
    with untouched(runner.run.session.model, runner.before), ExitStack() as applied:
        concurrent: list[ActiveBatch] = []
        for pending in filter(None, map(runner.begin, groups)):
            edited = runner.apply(pending, applied)
            if edited is None:
                continue
            if len(groups) > 1 and isinstance(edited, SupportsConcurrentSolve):
                units = runner.open_units(pending.group, pending.valid.skipped, pending.bank)
                concurrent.append(ActiveBatch(pending=pending, edited=edited, units=tuple(units)))
            else:
                runner.ask_cases(pending.group, pending.cases, pending.bank, edited)
        if concurrent:
            ask_together(runner, concurrent)


def judge_folder(
    folder: RunFolder, catalog: Catalog, *, name: str = "", data_dir: str = "", asking: JudgeModel | None = None
) -> int:
    """Judge the recorded replies with the judge ``name``, by default the dataset's. ``asking``: the judge's model.

    Returns the number of lines that were judged. It is 0 if this judge, with this model, has judged all of them. The
    judge counts as the last one even then.
    """
    known = recorded_run(folder, catalog, data_dir)
    judge = open_judge(dataset_judge(catalog, known.spec, name, NO_OPTIONS), catalog, asking)
    return judge_run(folder, known.cases, judge, asking)


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
    """Write ``scores.json`` from the records. ``known``: the dataset of the run, if it has been read.

    Without ``metrics``: those of ``measures_of``. Without ``judge``: the last one.
    """
    known = known or recorded_run(folder, catalog, data_dir)
    measures = measures_of(folder, catalog, known.spec, metrics=metrics, judge=judge, options=options)
    with folder.writing():
        return score_run(folder, known.cases, measures, judge=judge)


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


def load_runs(
    folders: Sequence[RunFolder],
    catalog: Catalog,
    *,
    data_dir: str = "",
    skipped: Callable[[BadRun], object] | None = None,
) -> LoadedRuns:
    """Load the reports of several runs, as ``load_report`` does. Raises BadRun.

    ``skipped`` gets the errors of runs that cannot be scored yet, unless no other run is left.
    """
    found: list[tuple[RunFolder, Reported]] = []
    for folder in folders:
        try:
            found.append((folder, load_report(folder, catalog, data_dir=data_dir)))
        except BadRun as error:
            if skipped is None or (not found and folder is folders[-1]):
                raise
            skipped(error)
    return LoadedRuns(folders=tuple(one for one, _its in found), reported=tuple(its for _one, its in found))
