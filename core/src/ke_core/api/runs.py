"""Evaluate editors, and read runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.api.models import Model, installed_catalog, plugins
from ke_core.api.tables import Table
from ke_core.cli.report import opened_runs
from ke_core.cli.running import prepare_editors, run_folder
from ke_core.plugins.options import check_mapping, option_texts
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.index import Index, key_of
from ke_core.results.load import read_scores
from ke_core.runner.evaluate import evaluate as evaluate_run
from ke_core.runner.run import EvalRequest
from ke_core.spec.errors import BadConfig, UnknownComponent
from ke_core.spec.results import Failure, MetricScore, Reply, Scored
from ke_core.spec.runspec import Plan


@frozen(kw_only=True, eq=False, repr=False)
class Evaluation:
    """One or several finished runs, with their scores, answers and edits as tables."""

    folders: tuple[RunFolder, ...]

    @property
    def paths(self) -> list[Path]:
        """The run folders, which ``ke report`` reads."""
        return [folder.path for folder in self.folders]

    @property
    def scores(self) -> Table:
        """One row for each value of a metric, with a 95% interval and the number of observations."""
        return Table.of(
            {"editor": folder.spec.editor.name, **_score(score)}
            for folder in self.folders
            for score in read_scores(folder).scores
            if not score.tags
        )

    @property
    def answers(self) -> Table:
        """One row for each answer, with its verdict. ``phase`` is before or after the edits."""
        return Table.of(row for folder in self.folders for row in _answers(folder))

    @property
    def edits(self) -> Table:
        """One row for each batch of edits, with its cost and the number of refused edits."""
        return Table.of(
            {
                "editor": folder.spec.editor.name,
                "cases": len(batch.cases),
                "refused": len(batch.refused),
                **{name: getattr(batch, name) for name in ("batch", "edits", "failed", "seconds")},
            }
            for folder in self.folders
            for batch in Index.of(folder.path / RECORDS).batches.values()
        )

    def __repr__(self) -> str:
        return repr(self.scores)

    def _repr_html_(self) -> str:
        """Return the scores for a notebook."""
        return self.scores._repr_html_()


def evaluate(
    model: Model,
    *,
    editors: Sequence[str],
    dataset: str,
    limit: int | None = None,
    edits_per_batch: int | None = 1,
    num_edited: int | None = None,
    sequential: bool = False,
    eval_every: int | None = None,
    eval_set: str = "seen",
    eval_limit: int | None = None,
    styles: Sequence[str] = (),
    judge: str = "",
    metrics: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    data_dir: str | Path = "",
    seed: int = 0,
    out: str | Path = "runs",
) -> Evaluation:
    """Evaluate each editor on the same cases, in a run folder of its own in ``out``, as ``ke eval`` does.

    A run that was interrupted is resumed. ``edits_per_batch``: the number of cases that are edited together; None for
    all of them. ``num_edited``: edit that many cases, and ask all of them. ``options``: by component, such as
    ``{"memit": {"layers": [4, 5, 6]}}``. Raises KEError.

    >>> run = ke.evaluate(model, editors=["none", "parrot"], dataset="atlas", limit=2, out="runs")
    >>> len(run.paths)
    2
    """
    Model.check(model)
    _check_arguments(
        {"editors": editors, "styles": styles, "metrics": metrics},
        {"limit": limit, "edits_per_batch": edits_per_batch, "num_edited": num_edited, "eval_every": eval_every,
         "eval_limit": eval_limit, "seed": seed},
        options or {},
    )  # fmt: skip
    protocol, size = ("partition", edits_per_batch) if num_edited is None else ("sample", num_edited)
    how = {"sequential": sequential, "eval_every": eval_every, "eval_set": eval_set, "eval_limit": eval_limit}
    request = EvalRequest(
        editor=editors[0],
        dataset=dataset,
        model=model.choice,
        options={name: option_texts(values) for name, values in (options or {}).items()},
        plan=_plan(protocol=protocol, limit=limit, size=size, **how),
        styles=tuple(styles),
        judge=judge,
        metrics=tuple(metrics),
        seed=seed,
        data_dir=str(data_dir),
    )
    folders = []
    with model.reserved(), model.progress.shown():
        for run in [*prepare_editors(installed_catalog(), editors, request, model.progress, model.model)]:
            folders.append(RunFolder.create(run_folder(Path(out), run.spec), run.spec, run.files))
            evaluate_run(run, folders[-1])
    return Evaluation(folders=tuple(folders))


def _check_arguments(lists: Mapping[str, Any], counts: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise BadConfig for arguments of another type. ``lists`` are lists of names, ``counts`` numbers or None."""
    for name, value in lists.items():
        if isinstance(value, str):
            raise BadConfig(f"{name} is {value!r}, not a list of names", hint=f"{name}=[{value!r}]")
    if not lists["editors"]:
        raise BadConfig("editors is empty", hint='give a list of names, such as ["memit"]')
    for name, value in counts.items():
        if not isinstance(value, int | None) or isinstance(value, bool) or (value or 0) < 0:
            raise BadConfig(f"{name} is {value!r}, not a whole number from 0", hint="leave it out, or None for all")
    for name, value in check_mapping(options, 'such as options={"memit": {"layers": [4, 5]}}').items():
        if not isinstance(value, Mapping):
            raise BadConfig(
                f"options[{name!r}] is {value!r}, not the options of a component",
                hint='group them by component, such as options={"memit": {"layers": [4, 5]}}',
            )


def _plan(**given: Any) -> Plan:
    try:
        return Plan(**given)
    except ValueError as error:
        raise BadConfig(f"these arguments do not fit together: {error.args[0]}") from error


def read_run(folder: str | Path) -> Evaluation:
    """Read a run folder, or all runs in a folder; damaged ones are named on standard error. Raises BadRun.

    >>> run = ke.read_run("runs")
    >>> {row["editor"] for row in run.scores} == {"none", "parrot"}
    True
    """
    return Evaluation(folders=tuple(opened_runs([Path(folder)])))


def compare(*runs: Evaluation | str | Path) -> Table:
    """Compare runs of the same cases query by query with the first one, as ``ke compare`` does.

    Each row has a score, the difference, and its 95% interval. Raises UnknownComponent without ``ke-plugin-analysis``.

    >>> differences = ke.compare(ke.read_run("runs"))
    """
    found = [run if isinstance(run, Evaluation) else read_run(run) for run in runs]
    folders = [folder for run in found for folder in run.folders]
    rows = plugins().manager.hook.ke_compare_runs(folders=folders, catalog=installed_catalog())
    if rows is None:
        raise UnknownComponent("no installed plugin compares runs", hint="pip install ke-plugin-analysis")
    return Table.of(rows)


def _score(score: MetricScore) -> dict[str, Any]:
    names = ("metric", "aspect", "phase", "style", "value", "n", "skipped", "measure")
    low, high = (score.interval.low, score.interval.high) if score.interval else (None, None)
    return {**{name: getattr(score, name) for name in names}, "low": low, "high": high}


def _answers(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the answers of a run."""
    index, judge = Index.of(folder.path / RECORDS), key_of(read_scores(folder).judge)
    for case in index.cases:
        judged = index.judgments(case, judge)
        for line in index.replies(case):
            verdicts = judged[line.place].judgments if line.place in judged else {}
            for query, reply in line.replies.items():
                verdict = verdicts.get(query)
                yield {
                    "editor": folder.spec.editor.name, "case": line.case, "query": query, "phase": line.phase,
                    "style": line.style, "answer": _text(reply), "verdict": verdict and verdict.verdict.name.lower(),
                }  # fmt: skip


def _text(reply: Reply) -> Any:
    """Return an answer's text, the log-probabilities of a likelihood request, or the error of a failed request."""
    return getattr(reply, {Scored: "logprobs", Failure: "message"}.get(type(reply), "text"))
