"""What ``ke eval`` and ``ke demo`` share: prepare every run before the first begins, run them, show the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import click
from attrs import evolve, frozen
from click.core import ParameterSource

from ke_core.cli.app import App
from ke_core.cli.console import err, out, progress
from ke_core.cli.errors import DONE, FAILED
from ke_core.data.records import Usage
from ke_core.data.runspec import ModelRef, Plan, RunSpec
from ke_core.errors import BadRun
from ke_core.plugins.options import split_options
from ke_core.protocols import Progress
from ke_core.report.load import load_report
from ke_core.report.numbers import count_noun, duration
from ke_core.report.page import report_page
from ke_core.report.run import plan_words, without_model
from ke_core.report.spent import spent_words
from ke_core.report.text import literal
from ke_core.results.difference import code_difference
from ke_core.results.folder import RunFolder
from ke_core.run.evaluation import EvalRequest, prepare, run_job
from ke_core.run.job import Finished, Job
from ke_core.run.session import ModelChoice
from ke_core.run.spending import FREE, Prices
from ke_core.runner.world import world
from ke_core.specs import ModelRequest

ROOT = Path("runs")


@frozen(kw_only=True)
class EvalCommand:
    """A command line: the editors, what they share, and where the runs go.

    ``out`` is the folder of the one run; else each run has a folder of its own in ``root``.
    """

    editors: tuple[str, ...]
    request: EvalRequest
    out: Path | None
    root: Path
    prices: Prices = FREE

    @classmethod
    def of(
        cls,
        editors: Sequence[str],
        dataset: str,
        data_dir: Path | None,
        given: Mapping[str, Any],
        *,
        root: Path | None = None,
    ) -> Self:
        """From the values of the options, by their names in ``ke eval``. Raises UsageError where they don't fit."""
        for name in editors:
            if list(editors).count(name) > 1:
                raise click.UsageError(f"--editor {name} is given twice; runs with other options go in another command")
        request = EvalRequest(
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
        folder = given.get("out")
        alone = len(editors) == 1 and root is None
        return cls(
            editors=tuple(editors),
            request=request,
            out=folder if alone else None,
            root=root or folder or ROOT,
            prices=Prices(prompt=given.get("price_in", 0.0), generated=given.get("price_out", 0.0)),
        )

    def place(self, spec: RunSpec) -> Path:
        """The folder of one run."""
        if self.out is not None:
            return self.out
        return self.root / f"{spec.editor.name}-{spec.dataset.component.name}-{spec.id[:8]}"


def evaluate(app: App, asked: EvalCommand) -> int:
    """Run all, print the report, return the exit status: 1 if any reply is a failure.

    Where several processes share the runs, the first of them prints, and its status is theirs.
    """
    console = err()
    with progress(console) as shown:
        jobs = _prepare(app, asked, shown)
        folders = [RunFolder.create(asked.place(job.spec), job.spec, job.files) for job in jobs]
        finished: list[Finished] = []
        for job, folder in zip(jobs, folders, strict=True):
            console.print(literal(_intention(job, folder)), soft_wrap=True)
            for words in _other_code(folder) if asked.out is None else ():
                console.print(literal(words, "yellow"), soft_wrap=True)
            here = RunFolder.create(folder.path, job.spec, job.files)  # while others ran, somebody may have pruned it
            finished.append(run_job(job, here, prices=asked.prices))
            console.print(literal(f"  done in {duration(finished[-1].seconds)}", "dim"))
        if usage := next((found for job in jobs if (found := _usage(job)) is not None), None):
            console.print(literal(f"  asked of the server now: {_words(usage, asked.prices)}", "dim"), soft_wrap=True)
    if world().leads:
        out().print(report_page([load_report(folder, app.catalog) for folder in folders]))
    world().meet()  # a launcher ends all processes when one has ended with another status than 0
    return FAILED if world().leads and any(ended.failures for ended in finished) else DONE


def _prepare(app: App, asked: EvalCommand, shown: Progress) -> list[Job]:
    """Every job before the first is run, so that a mistake in the last costs nothing. One model for all."""
    specs = {name: app.catalog.spec("editor", name) for name in asked.editors}
    prefixes = {spec.prefix for spec in specs.values()}
    jobs: list[Job] = []
    for name, spec in specs.items():
        others = prefixes - {spec.prefix}
        own = {prefix: given for prefix, given in asked.request.options.items() if prefix not in others}
        model = next((job.session.model for job in jobs if job.editor_spec.needs_model), None)
        jobs.append(prepare(evolve(asked.request, editor=name, options=own), app.catalog, shown, model=model))
    return jobs


def _usage(job: Job) -> Any:
    """What the model's server was asked in this process; None for a local model."""
    return getattr(job.session.model, "usage", None)


def _words(usage: Any, prices: Prices) -> str:
    return spent_words([Usage(**usage.counts(), price_in=prices.prompt, price_out=prices.generated)])


def _intention(job: Job, folder: RunFolder) -> str:
    """What is going to be done, in a line."""
    spec = job.spec
    begun = any(True for _record in folder.read())
    what = f"{spec.editor.name} on {count_noun(len(job.cases), 'case')} of {spec.dataset.component.name}"
    model = "without a model" if without_model(spec) else f"with {spec.model.id}"
    how = f"{plan_words(spec)}, asked as {', '.join(spec.styles)}, {model}"
    return f"{what} ({how}) -> {folder.path}" + (", going on where it stopped" if begun else "")


def _other_code(folder: RunFolder) -> Iterator[str]:
    """Say which earlier run is not resumed because the code of a plugin changed; nothing once this one has begun."""
    if any(True for _record in folder.read()):
        return
    for path in sorted(folder.path.parent.glob(f"{folder.path.name.rpartition('-')[0]}-*")):
        with suppress(BadRun):
            if changed := code_difference(RunFolder.open(path).spec, folder.spec):
                yield f"  starting a new run: {changed} since {path}"


LOADING = (
    "dtype", "device", "device_map", "chat", "trust_remote_code", "base_url", "concurrency", "timeout", "api_key_env",
)  # fmt: skip
"""Options that say how a model is loaded or reached; a command may have some of them."""


def recorded_model_choice(
    context: click.Context, given: Mapping[str, Any], model: ModelRef, *, folder: bool
) -> ModelChoice:
    """The model that an edit was made for, loaded as it was then, except for what the command line says.

    Raises UsageError where only the name of its ``folder`` is known.
    """
    said = {name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if "model" not in said and folder:
        raise click.UsageError(f"the edit was made for a model in a folder called {model.id!r}: say --model FOLDER")
    recorded = {"model": model.reference, "dtype": model.dtype, "chat": model.chat}
    return model_choice({**given, **{name: value for name, value in recorded.items() if name not in said}})


def model_choice(given: Mapping[str, Any]) -> ModelChoice:
    """What ``options.model_options`` says. Raises UsageError for a revision given twice."""
    reference, revision = given["model"], given["revision"]
    if revision and "@" in reference:
        raise click.UsageError("the revision is given twice: in --model and in --revision")
    return ModelChoice(
        reference=f"{reference}@{revision}" if revision else reference,
        how=ModelRequest(id="", **{name: given[name] for name in LOADING if name in given}),
    )


def _plan(given: Mapping[str, Any]) -> Plan:
    """Raises UsageError for an option of the other protocol: it would change nothing, in silence."""
    protocol, batch, edited = given.get("protocol", "partition"), given.get("batch"), given.get("edited")
    if protocol == "partition" and edited is not None:
        raise click.UsageError("--edited belongs to --protocol sample; say --batch N for partition")
    if protocol == "sample" and batch is not None:
        raise click.UsageError("--batch belongs to --protocol partition; say --edited K for sample")
    if protocol == "sample" and edited is None:
        raise click.UsageError("--protocol sample needs --edited K: how many cases are edited")
    sequential, evaluate, of = given.get("sequential", False), given.get("evaluate"), given.get("of")
    if sequential and protocol == "sample":
        raise click.UsageError("--sequential edits the batches of --protocol partition one after another")
    if not sequential and (evaluate or of):
        raise click.UsageError(f"{'--evaluate' if evaluate else '--of'} belongs to --sequential")
    size = edited if protocol == "sample" else 1 if batch is None else None if batch == "all" else batch
    return Plan(
        protocol=protocol,
        size=size,
        limit=given.get("limit"),
        ask=given.get("ask"),
        sequential=sequential,
        evaluate=evaluate if isinstance(evaluate, int) else None,
        of=of or "seen",
    )
