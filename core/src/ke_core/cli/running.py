"""Run the evaluations of a command line (``ke eval``, ``ke demo``): prepare all, run them, print the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from attrs import evolve, fields

from ke_core.cli.app import App
from ke_core.cli.console import err, progress
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.report import print_report
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import prefixes, split_options
from ke_core.results.difference import code_difference
from ke_core.results.folder import RunFolder, runs_in
from ke_core.results.footer import spent_words
from ke_core.results.formatting import count_noun, duration, literal
from ke_core.results.reported import plan_words, without_model
from ke_core.runner.evaluate import evaluate, load_report, prepare
from ke_core.runner.run import EvalRequest, Finished, ResolvedRun
from ke_core.runner.session import ModelChoice
from ke_core.runner.usage import Prices
from ke_core.runner.world import world
from ke_core.spec.errors import BadRun
from ke_core.spec.protocols import LanguageModel, Progress
from ke_core.spec.records import Usage
from ke_core.spec.runspec import Plan, RunSpec
from ke_core.spec.specs import ModelRequest


def eval_request(editors: Sequence[str], dataset: str, data_dir: Path | None, given: Mapping[str, Any]) -> EvalRequest:
    """Return the request of the first editor, from the options of ``ke eval``. Raises UsageError."""
    for name in editors:
        if editors.count(name) > 1:
            raise click.UsageError(f"--editor {name} is given twice; runs with other options go in another command")
    return EvalRequest(
        editor=editors[0],
        dataset=dataset,
        model=model_choice(given),
        options=split_options(given["options"]),
        plan=_plan(given),
        styles=given.get("styles", ()),
        edited_form=given.get("edited_form"),
        judge=given.get("judge", ""),
        metrics=given.get("metrics", ()),
        seed=given["seed"],
        prompts=given.get("prompts", ""),
        data_dir=str(data_dir) if data_dir else "",
    )


def evaluate_editors(
    app: App,
    editors: Sequence[str],
    request: EvalRequest,
    folder: Path | None,
    prices: Prices,
    *,
    alone: bool,
    full: bool = False,
    as_json: bool = False,
    first: Callable[[ResolvedRun], str] | None = None,
    note: str = "",
) -> int:
    """Evaluate every editor, print the report, and return the exit status: 1 if any reply is a failure.

    ``full``: print every table. ``first``: called with each prepared run until it returns a text, which leads the
    report. ``note`` is a line under the table. ``folder`` is the run folder if the run is ``alone``, else the parent
    of the run folders. If several processes share the runs, the first one prints, and its status counts.
    """
    console = err()
    with progress(console) as shown:
        runs: list[ResolvedRun] = []
        lead = ""
        for run in prepare_editors(app.catalog, editors, request, shown):
            runs.append(run)
            if first and not lead and (lead := first(run)):
                console.print(literal(lead), soft_wrap=True)
        places = [folder if folder and alone else run_folder(folder or Path("runs"), run.spec) for run in runs]
        folders = [RunFolder.create(place, run.spec, run.files) for place, run in zip(places, runs, strict=True)]
        finished: list[Finished] = []
        for run, place in zip(runs, folders, strict=True):
            begun = any(True for _record in place.read())
            known = ", finished before" if place.finished else ", resuming" if begun else ""
            console.print(literal(_summary(run, place) + known), soft_wrap=True)
            for words in () if begun or (folder and alone) else _changed_code(place):
                console.print(literal(words, "yellow"), soft_wrap=True)
            finished.append(evaluate(run, place, prices=prices))
            console.print(literal(f"  done in {duration(finished[-1].seconds)}", "dim"))
        if usage := next((found for run in runs if (found := _usage(run, prices)) is not None), None):
            console.print(literal(f"  sent to the server: {spent_words([usage])}", "dim"), soft_wrap=True)
    if world().leads:
        reported = [load_report(place, app.catalog) for place in folders]
        print_report(
            app,
            reported,
            _shown_paths(places),
            full=full,
            as_json=as_json,
            data_dir=request.data_dir,
            lead=lead,
            note=note,
        )
    world().meet()  # a launcher ends all processes when one has ended with another status than 0
    return FAILED if world().leads and any(ended.failures for ended in finished) else DONE


def _shown_paths(places: Sequence[Path]) -> Sequence[Path]:
    """Return the run folders, or their parent if it contains no other run."""
    if len(places) == 1:
        return places  # without reading every other run of the folder
    parent = places[0].parent
    found = {path.resolve() for path, _run in runs_in(parent)}
    return [parent] if found == {place.resolve() for place in places} else places


def prepare_editors(
    catalog: Catalog, editors: Sequence[str], request: EvalRequest, shown: Progress, model: LanguageModel | None = None
) -> Iterator[ResolvedRun]:
    """Prepare a run of each editor. The runs share ``model``, or the one that is loaded first.

    Prepare all of them before the first one starts, so that a mistake in the last costs nothing.
    """
    specs = {name: catalog.spec("editor", name) for name in editors}
    known = {prefix for spec in specs.values() for prefix in prefixes(spec)}
    for name, spec in specs.items():
        others = known.difference(prefixes(spec))
        own = {prefix: given for prefix, given in request.options.items() if prefix not in others}
        run = prepare(evolve(request, editor=name, options=own), catalog, shown, model=model)
        if run.editor_spec.needs_model:
            model = run.session.model
        yield run


def run_folder(root: Path, spec: RunSpec) -> Path:
    """Return the default folder of a run: ``EDITOR-DATASET-ID`` in ``root``."""
    return root / f"{spec.editor.name}-{spec.dataset.component.name}-{spec.id[:8]}"


def _usage(run: ResolvedRun, prices: Prices) -> Usage | None:
    """Return the usage of the model's server in this process. None for a local model."""
    usage: Any = getattr(run.session.model, "usage", None)
    return None if usage is None else Usage(**usage.counts(), price_in=prices.prompt, price_out=prices.generated)


def _summary(run: ResolvedRun, folder: RunFolder) -> str:
    """Describe the run in one line."""
    spec = run.spec
    what = f"{spec.editor.name} on {count_noun(len(run.cases), 'case')} of {spec.dataset.component.name}"
    model = "without a model" if without_model(spec) else f"with {spec.model.id}"
    how = f"{plan_words(spec)}, prompts {', '.join(spec.styles)}, {model}"
    return f"{what} ({how}) -> {folder.path}"


def _changed_code(folder: RunFolder) -> Iterator[str]:
    """Name the earlier runs that are not resumed because the code of a plugin changed."""
    for path in sorted(folder.path.parent.glob(f"{folder.path.name.rpartition('-')[0]}-*")):
        with suppress(BadRun):
            if changed := code_difference(RunFolder.open(path).spec, folder.spec):
                yield f"  starting a new run: {changed} since {path}"


LOADING = tuple(one.name for one in fields(ModelRequest) if one.name not in ("id", "revision"))
"""Options for loading a model; a command may have only some of them."""


def model_choice(given: Mapping[str, Any]) -> ModelChoice:
    """Return the model of ``options.model_options``. Raises UsageError for a revision given twice."""
    reference, revision = given["model"], given["revision"]
    if revision and "@" in reference:
        raise click.UsageError("the revision is given twice: in --model and in --revision")
    return ModelChoice(
        reference=f"{reference}@{revision}" if revision else reference,
        how=ModelRequest(id="", **{name: given[name] for name in LOADING if name in given}),
    )


def _plan(given: Mapping[str, Any]) -> Plan:
    """Reject options that would have no effect. Raises UsageError."""
    protocol, batch, edited = given.get("protocol", "partition"), given.get("batch"), given.get("num_edited")
    sequential, every, chosen = given.get("sequential", False), given.get("eval_every"), given.get("eval_set")
    if protocol == "partition" and edited is not None:
        raise click.UsageError("--num-edited belongs to --protocol sample; use --batch N for partition")
    if protocol == "sample" and batch is not None:
        raise click.UsageError("--batch belongs to --protocol partition; use --num-edited K for sample")
    if protocol == "sample" and edited is None:
        raise click.UsageError("--protocol sample needs --num-edited K: how many cases are edited")
    if sequential and protocol == "sample":
        raise click.UsageError("--sequential edits the batches of --protocol partition one after another")
    if not sequential and (every or chosen):
        raise click.UsageError(f"{'--eval-every' if every else '--eval-set'} belongs to --sequential")
    size = edited if protocol == "sample" else 1 if batch is None else None if batch == "all" else batch
    return Plan(
        protocol=protocol,
        size=size,
        limit=given.get("limit"),
        eval_limit=given.get("eval_limit"),
        sequential=sequential,
        eval_every=every if isinstance(every, int) else None,
        eval_set=chosen or "seen",
    )
