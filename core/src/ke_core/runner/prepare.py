"""Prepare a run: resolve names and options, read the dataset, load the model, and check that the parts fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from attrs import evolve

from ke_core.engine.models import NO_MODEL, NoModel
from ke_core.engine.passthrough import put
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.runner.plan import groups, select
from ke_core.runner.recorded import ReadDataset, extended, read_dataset
from ke_core.runner.resolve import DATA_DIR, resolve_component, with_flag
from ke_core.runner.run import EvalRequest, OpenJudge, ResolvedRun
from ke_core.runner.scoring import asked_by, build_metrics, judge_and_metrics
from ke_core.runner.session import allowed, open_session
from ke_core.spec.errors import BadConfig, NeedsWeights, NoLikelihood, ServerFailed, UnsupportedEdit
from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Editor, HasDependencies, LanguageModel, Progress, RemoteModel, Session
from ke_core.spec.requests import Likelihood
from ke_core.spec.results import Failure
from ke_core.spec.runspec import DataRef, RunSpec
from ke_core.spec.specs import DatasetSpec, EditorSpec

TRIED = Likelihood(id="", case="", prompt="The capital of France is", continuations=(" Paris",))
EDIT_ID = re.compile(r"edit '([^']+)'")
"""Finds another edit's id in the reason why an edit cannot be made."""


def resolve_run(request: EvalRequest, catalog: Catalog, *, read: ReadDataset = read_dataset) -> ResolvedRun:
    """Resolve everything that needs no model. ``read``: how to read the dataset.

    Raises KEErrors: unknown names, options that do not fit, a dataset that cannot be read.
    """
    options = with_flag(catalog.spec("dataset", request.dataset), request.options, DATA_DIR, request.data_dir)
    options = with_flag(catalog.spec("dataset", request.dataset), options, "prompts", request.prompts)
    editor = resolve_component(catalog, "editor", request.editor, options)
    data = resolve_component(catalog, "dataset", request.dataset, options)
    judge, metrics = judge_and_metrics(
        catalog, data.spec.for_config(data.config), options, judge=request.judge, metrics=request.metrics
    )
    reject_unused(options, [editor.spec, data.spec, judge.spec, *(metric.spec for metric in metrics)])
    styles = choose_styles(data.spec, request.styles)
    dataset, every = read(data)
    cases = tuple(map(extended(metrics, every), select(every, request.plan, request.seed)))
    spec = RunSpec(
        ke=version("ke-core"),
        model=request.model.named(catalog) if editor.spec.needs_model else NO_MODEL,
        editor=editor.component,
        dataset=DataRef(component=data.component, sha256=dataset.info().sha256),
        styles=styles,
        plan=request.plan,
        edited_form=request.edited_form or editor.spec.edited_form,
        joint=not editor.spec.one_at_a_time,
        oracle=tuple(sorted(editor.spec.oracle(editor.config))),
        seed=request.seed,
        requests=tuple(ref for ref in (asked_by(metric, cases) for metric in metrics) if ref is not None),
        own_edits=editor.spec.given_own_edits(editor.config),
    )
    return ResolvedRun(
        spec=spec,
        method=editor,
        dataset=dataset,
        cases=cases,
        groups=tuple(groups(cases, request.plan, request.seed, dataset.split)),
        judging=OpenJudge(component=judge.component, judge=judge.built, scored=judge.spec.scored),
        measures=build_metrics(metrics),
        files=data.files,
        hides=data.spec.hides(data.config),
    )


def load_model(
    run: ResolvedRun, request: EvalRequest, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None
) -> ResolvedRun:
    """Open the session of a run: load the model unless it is given, and complete the specification.

    Raises KEErrors: a model that cannot be loaded, parts that do not fit.
    """
    oracle = run.editor_spec.oracle(run.method.config)
    material = allowed(run.dataset.material(), oracle, editor=request.editor)
    spec = run.spec
    if not run.editor_spec.needs_model:
        model = NoModel()
    else:
        model = request.model.load(catalog, progress) if model is None else model
        spec = evolve(spec, model=request.model.describe(catalog, model))
    session = open_session(model, catalog=catalog, seed=request.seed, progress=progress, material=material)
    run = evolve(run, spec=spec, session=session)
    refuse(run)
    if isinstance(run.editor, HasDependencies):
        dependencies = run.editor.dependencies(session)
        run = evolve(run, spec=evolve(spec, editor=evolve(spec.editor, dependencies=dependencies)))
    return run


def choose_styles(spec: DatasetSpec, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted styles, or all of them, in the order of the dataset. Raises BadConfig."""
    for style in wanted:
        if style not in spec.styles:
            raise BadConfig(f"dataset {spec.name} has no style {style!r}", hint=f"one of: {', '.join(spec.styles)}")
    return tuple(style for style in spec.styles if style in wanted or not wanted)


def refuse(run: ResolvedRun) -> None:
    """Raise KEErrors for combinations that cannot work, before any request is sent."""
    refuse_weightless(run.editor_spec, run.session.model)
    if run.hides and not run.editor_spec.masks:
        dataset, editor = run.spec.dataset.component.name, run.spec.editor.name
        raise BadConfig(
            f"{dataset} hides edits from some cases, and {editor} cannot hide any",
            hint="choose an editor that can, or switch the dataset's masking off",
        )
    run.editor.check(run.session, ())  # raises if the editor cannot edit this model at all
    _refuse_unscored(run)


def refuse_weightless(spec: EditorSpec, model: LanguageModel) -> None:
    """Raise NeedsWeights if the editor changes weights and the model is remote."""
    if spec.needs_weights and not hasattr(model, "patch"):
        raise NeedsWeights(
            f"{spec.name} changes weights, and {model.id} has none here",
            hint="choose a model that is loaded locally (hf:...), or an editor that keeps its edits in a memory",
        )


def refuse_edits(
    spec: EditorSpec, editor: Editor, session: Session[Any], edits: Sequence[Edit], sources: Mapping[str, str]
) -> None:
    """Raise UnsupportedEdit with the reason for each edit that the editor cannot make.

    ``sources``: where an edit comes from, by id. The error names sources instead of ids, which are mostly generated.
    """

    def source_of(found: re.Match[str]) -> str:
        return f"the edit of {sources[found[1]]}" if found[1] in sources else found[0]

    refused = spec.refused(editor, session, edits)
    if refused:
        given = [(sources.get(edit.id, edit.id), edit) for edit in edits if edit.id in refused]
        raise UnsupportedEdit(
            f"{spec.name} cannot make {len(refused)} of {len(edits)} edits",
            details=tuple(
                f"{name}: {edit.statement!r}: {EDIT_ID.sub(source_of, refused[edit.id])}" for name, edit in given
            ),
            hint="fix or remove these edits; nothing was changed",
        )


def _refuse_unscored(run: ResolvedRun) -> None:
    """Raise NoLikelihood if the run needs log-probabilities and the server has none, ServerFailed if it fails.

    Some servers ignore the option silently, so one request is sent. A resumed run gets its reply from the cache.
    """
    model, wanting = run.session.model, _wanting_scores(run)
    if not (wanting and isinstance(model, RemoteModel)):
        return
    tried = run.session.engine.run({"scores": put(TRIED)})["scores"]
    if isinstance(tried, Failure) and tried.passing:
        raise ServerFailed(
            f"{wanting} needs log-probabilities, and {model.id} could not be tried: {tried.message}",
            hint="start the same run again later",
        )
    if isinstance(tried, Failure):
        raise NoLikelihood(
            f"{wanting} needs log-probabilities, and {model.id} gives none: {tried.message}",
            hint="choose metrics that need none (--metric), an option of the dataset that asks for none (ke show), "
            "a server whose /completions has 'echo' with 'logprobs', or a local model",
        )


def _wanting_scores(run: ResolvedRun) -> str:
    """Return the name of what needs log-probabilities. Empty if nothing does."""
    for measure in run.asking:
        if any(isinstance(request, Likelihood) for request in measure.requests):
            return f"metric {measure.component.name}"
    if not any(query.continuations for case in run.cases for probe in case.probes for query in probe.queries):
        return ""
    deriving = next((measure.component.name for measure in run.measures if measure.spec.probes is not None), "")
    return f"metric {deriving}" if deriving else f"dataset {run.spec.dataset.component.name}"
