"""The whole of a run, as the command line asks for it: prepare, ask, judge, score.

::

    job = prepare(request, catalog, progress)          # resolves, validates, loads the model
    folder = RunFolder.create(path, job.spec)          # new, or the same run again: it goes on where it stopped
    finished = run(job, folder)                        # asks, judges, scores

and afterwards, without the edited model: ``judge(...)`` and ``score(...)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from types import MappingProxyType

from attrs import evolve, field, frozen

from ke_core.engine.models import NO_MODEL, NoModel
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.load import read_report
from ke_core.results.reported import Reported
from ke_core.runner.ask import evaluate, planned, refuse
from ke_core.runner.distributed import claimed, close_if_complete
from ke_core.runner.job import Finished, Job, Judging
from ke_core.runner.judging import ChosenJudge, JudgeModel, judge_run, open_judge
from ke_core.runner.log import logged, phase
from ke_core.runner.plan import Group, groups, select
from ke_core.runner.probing import asked_by
from ke_core.runner.recorded import Datasets, RecordedRun, recorded_run
from ke_core.runner.resolve import DATA_DIR, Options, ResolvedComponent, resolve_component, with_flag
from ke_core.runner.scoring import NO_OPTIONS, build_metrics, dataset_judge, judge_and_metrics, measures_of, score_run
from ke_core.runner.session import ModelChoice, allowed, open_session
from ke_core.runner.usage import FREE, Prices, measured_phase
from ke_core.runner.world import world
from ke_core.spec.errors import BadConfig
from ke_core.spec.protocols import Dataset, HasDependencies, LanguageModel, Progress
from ke_core.spec.queries import Case, Form
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import DataRef, ModelRef, Plan, RunSpec
from ke_core.spec.specs import DatasetSpec, EditorSpec


@frozen(kw_only=True)
class EvalRequest:
    """What ``ke eval`` was asked for; empty means the dataset's (or the editor's) own choice.

    ``data_dir`` and ``prompts`` set the dataset's options of that name.
    """

    editor: str
    dataset: str
    model: ModelChoice
    options: Options = field(factory=dict)
    plan: Plan = field(factory=Plan)
    styles: tuple[str, ...] = ()
    edited_form: Form | None = None
    judge: str = ""
    metrics: tuple[str, ...] = ()
    seed: int = 0
    prompts: str = ""
    data_dir: str = ""


@frozen(kw_only=True)
class ResolvedRun:
    """Everything of a run but its model: named, validated and read. ``cases`` are the selected ones."""

    request: EvalRequest
    editor: ResolvedComponent
    data: ResolvedComponent
    judging: ChosenJudge
    measures: tuple[ResolvedComponent, ...]
    styles: tuple[str, ...]
    dataset: Dataset
    cases: tuple[Case, ...]

    @property
    def editor_spec(self) -> EditorSpec:
        """Of the editor that was chosen."""
        assert isinstance(self.editor.spec, EditorSpec)
        return self.editor.spec

    def groups(self) -> list[Group]:
        """The groups of the run. Raises BadConfig where the plan does not fit the cases."""
        return groups(self.cases, self.request.plan, self.request.seed, self.dataset.split)

    def specify(self, model: ModelRef, dependencies: Mapping[str, str] = MappingProxyType({})) -> RunSpec:
        """What the run is, with that model and what the editor rests on in it."""
        return specify(
            model=model,
            editor=self.editor,
            dependencies=dependencies,
            dataset=self.data,
            sha256=self.dataset.info().sha256,
            styles=self.styles,
            plan=self.request.plan,
            edited_form=self.request.edited_form,
            seed=self.request.seed,
            asks=tuple(ref for ref in map(asked_by, self.measures) if ref is not None),
        )


def prepare(request: EvalRequest, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None) -> Job:
    """Resolve, validate and build everything, and load the model unless it is given. Nothing is written.

    Raises KEErrors: unknown names, options that do not fit, a dataset that cannot be read, a model that
    cannot be loaded, parts that do not go together.
    """
    with measured_phase("reading the dataset") as reading:
        found = resolve_request(request, catalog)
    with measured_phase("loading the model") as loading:
        job = complete_job(found, catalog, progress, model=model)
    return evolve(job, before=(reading, loading))


def resolve_request(request: EvalRequest, catalog: Catalog, *, read: Datasets | None = None) -> ResolvedRun:
    """All of ``prepare`` that needs no model. ``read``: datasets that need not be read again."""
    spec = catalog.spec("dataset", request.dataset)
    options = with_flag(spec, request.options, DATA_DIR, request.data_dir)
    options = with_flag(spec, options, "prompts", request.prompts)
    editor, data = (
        resolve_component(catalog, "editor", request.editor, options),
        resolve_component(catalog, "dataset", request.dataset, options),
    )
    assert isinstance(data.spec, DatasetSpec)
    named = data.spec.for_config(data.config)
    judging, measures = judge_and_metrics(catalog, named, options, judge=request.judge, metrics=request.metrics)
    reject_unused(options, [editor.spec, data.spec, judging.spec, *(measure.spec for measure in measures)])
    styles = choose_styles(data.spec, request.styles)
    dataset, cases = (read or Datasets()).open(data, request.dataset)
    return ResolvedRun(
        request=request,
        editor=editor,
        data=data,
        judging=judging,
        measures=measures,
        styles=styles,
        dataset=dataset,
        cases=select(cases, request.plan, request.seed),
    )


def complete_job(
    found: ResolvedRun, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None
) -> Job:
    """The rest of ``prepare``. ``model``: the one that the request names, loaded already."""
    request, editor, judging = found.request, found.editor_spec, found.judging
    assert isinstance(found.data.spec, DatasetSpec)
    material = allowed(found.dataset.material(), editor.oracle(found.editor.config), editor=request.editor)
    loaded, reference = _model(request, catalog, editor, model, progress)
    job = Job(
        spec=found.specify(reference),
        session=open_session(loaded, catalog=catalog, seed=request.seed, progress=progress, material=material),
        editor=found.editor.build(),
        editor_spec=editor,
        dataset=found.dataset,
        cases=found.cases,
        files=found.data.files,
        hides=found.data.spec.hides(found.data.config),
        judging=Judging(component=judging.component, judge=judging.build(), scored=judging.spec.scored),
        measures=build_metrics(found.measures),
    )
    refuse(job)
    planned(job)
    if isinstance(job.editor, HasDependencies):
        job = evolve(job, spec=found.specify(reference, job.editor.dependencies(job.session)))
    return job


def run_job(job: Job, folder: RunFolder, *, prices: Prices = FREE) -> Finished:
    """Ask what is not yet on record, judge what is not yet judged, score.

    Started again on the same folder it goes on where it stopped, and has the folder for itself until the end: BadRun if
    another process is writing there. ``prices``: of a server's tokens. Where several processes share the run, the first
    of them judges and scores.
    """
    with claimed(folder, world()) as held, logged(job, folder) as ended:
        finished = evaluate(job, folder, prices=prices, held=held)
        ended |= {"failures": finished.failures, "skipped": finished.skipped}
        if not world().leads:
            return finished
        judging = job.judging
        with phase(folder, "judging"):
            judge_run(folder, job.cases, judging.judge, judging.component, scored=judging.scored, held=held)
        with phase(folder, "scoring"):
            scores = score_run(folder, job.cases, job.measures)
        folder.close()
    return evolve(finished, scores=tuple(scores))


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
    """``ke judge RUN``: judge the recorded replies by ``name`` (else the dataset's judge), ``asking`` a model.

    ``known``: the run's dataset, where it has been read already. Returns how many lines were written; 0 if this judge,
    with these options and this model, has judged them all. It then counts as the last judge all the same.
    """
    known = known or recorded_run(folder, catalog, data_dir)
    chosen = dataset_judge(catalog, known.spec, name, options)
    reject_unused(options, [chosen.spec])
    opened = open_judge(chosen, catalog, asking)
    return judge_run(
        folder,
        known.cases,
        opened.judge,
        opened.component,
        session=opened.session,
        scored=chosen.spec.scored,
        spent=partial(asking.since_last, opened.session.model) if asking and opened.session else tuple,
    )


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
    """``ke score RUN``: write ``scores.json`` from the records alone. ``known`` as for ``judge``.

    Without ``metrics`` those that read what ``judge`` finds beside verdicts, else the dataset's and those that asked
    something in this run; without ``judge`` the one that judged last.
    """
    known = known or recorded_run(folder, catalog, data_dir)
    measures = measures_of(folder, catalog, known.spec, metrics=metrics, judge=judge, options=options)
    with folder.writing():
        scores = score_run(folder, known.cases, measures, judge=judge)
        close_if_complete(folder, catalog, known)
    return scores


def _model(
    request: EvalRequest, catalog: Catalog, editor: EditorSpec, model: LanguageModel | None, progress: Progress
) -> tuple[LanguageModel, ModelRef]:
    if not editor.needs_model:
        return NoModel(), NO_MODEL
    loaded = request.model.load(catalog, progress) if model is None else model
    return loaded, request.model.describe(catalog, loaded)


def specify(
    *,
    model: ModelRef,
    editor: ResolvedComponent,
    dependencies: Mapping[str, str],
    dataset: ResolvedComponent,
    sha256: str,
    styles: tuple[str, ...],
    plan: Plan,
    edited_form: Form | None,
    seed: int,
    asks: tuple[DataRef, ...] = (),
) -> RunSpec:
    """``sha256`` is of what the dataset read. Without ``edited_form`` the editor's own is used.

    ``asks``: the metrics that ask something of every model, and what.
    """
    spec = editor.spec
    assert isinstance(spec, EditorSpec)
    return RunSpec(
        ke=version("ke-core"),
        model=model,
        editor=evolve(editor.component, dependencies=dependencies),
        dataset=DataRef(component=dataset.component, sha256=sha256),
        styles=styles,
        plan=plan,
        edited_form=edited_form or spec.edited_form,
        joint=not spec.one_at_a_time,
        oracle=tuple(sorted(spec.oracle(editor.config))),
        seed=seed,
        asks=asks,
        own_edits=spec.given_own_edits(editor.config),
    )


def choose_styles(spec: DatasetSpec, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The styles to ask in, in the dataset's order; all of them unless some are named. Raises BadConfig."""
    for style in wanted:
        if style not in spec.styles:
            raise BadConfig(f"dataset {spec.name} has no style {style!r}", hint=f"one of: {', '.join(spec.styles)}")
    return tuple(style for style in spec.styles if style in wanted or not wanted)


def load_report(folder: RunFolder, catalog: Catalog, *, data_dir: str = "") -> Reported:
    """Return the report of a run. Score the run from its records if that has not been done. Raises BadRun."""
    if not (folder.path / SCORES).exists():
        score_folder(folder, catalog, data_dir=data_dir)
    return read_report(folder, catalog)


@frozen(kw_only=True)
class LoadedRuns:
    """Runs and their reports; ``folders`` and ``reported`` are parallel."""

    folders: tuple[RunFolder, ...]
    reported: tuple[Reported, ...]


def load_runs(folders: Sequence[RunFolder], catalog: Catalog, *, data_dir: str = "") -> LoadedRuns:
    """Load the reports of several runs, as ``load_report`` does. Raises BadRun."""
    reported = tuple(load_report(folder, catalog, data_dir=data_dir) for folder in folders)
    return LoadedRuns(folders=tuple(folders), reported=reported)
