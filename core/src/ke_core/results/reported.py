"""The report of one or several runs, from which tables are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import field, frozen

from ke_core.engine.models import NO_MODEL
from ke_core.plugins.options import option_text
from ke_core.results.tally import ANSWERS_TITLE, HEADINGS, NO_METRIC, Tally
from ke_core.spec.codec import to_json
from ke_core.spec.queries import Phase
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Plan, RunSpec

Place = tuple[str, str, Phase, str, tuple[tuple[str, str], ...]]
"""Metric, aspect, phase, style, and the tag that names the slice."""


@frozen(kw_only=True)
class Reported:
    """One run as a report sees it. ``columns``: metric to its aspects with their headings, in table order.

    ``tables``: metric to the titles of its further tables, and likewise. ``less``: metrics and aspects of which less
    is better. ``counts``: metrics and aspects to what their values of 1 count.
    """

    path: str
    spec: RunSpec
    scores: tuple[MetricScore, ...]
    columns: Mapping[str, Mapping[str, str]] = field(factory=dict)
    tables: Mapping[str, Mapping[str, Mapping[str, str]]] = field(factory=dict)
    less: frozenset[tuple[str, str]] = frozenset()
    counts: Mapping[tuple[str, str], str] = field(factory=dict)
    tally: Tally = field(factory=Tally)

    def score(
        self, column: MetricColumn, phase: Phase, style: str, tag: tuple[str, str] | None = None
    ) -> MetricScore | None:
        """The score in that column, phase and style: of all cases, or of those with a tag."""
        return self._by_place.get((*column.place, phase, style, (tag,) if tag else ()))

    @cached_property
    def _by_place(self) -> Mapping[Place, MetricScore]:
        """Every score by where it belongs: a run that was asked after each of its edits has a slice for each."""
        places = [(one.metric, one.aspect, one.phase, one.style, tuple(one.tags.items())) for one in self.scores]
        return dict(zip(reversed(places), reversed(self.scores), strict=True))  # of two in one place, the first

    def styles(self, phase: Phase) -> list[str]:
        """The styles in which something was measured in that phase, in the order of the specification."""
        used = {score.style for score in self.scores if score.phase == phase and score.n}
        return list(dict.fromkeys((*(style for style in self.spec.styles if style in used), *sorted(used))))


@frozen(kw_only=True)
class MetricColumn:
    """One column of a table: an aspect of a metric. ``table``: its title; none for the metric's main table."""

    metric: str
    aspect: str
    heading: str
    table: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Metric and aspect."""
        return self.metric, self.aspect

    def holds(self, score: MetricScore) -> bool:
        """Whether the score belongs in this column."""
        return self.place == (score.metric, score.aspect)


def metric_columns(runs: Sequence[Reported]) -> list[MetricColumn]:
    """The columns that any of the runs has a number for, in the order of the metrics' own specifications.

    The main table of each metric comes first, then all further ones, then what the core counts of answers.
    """
    every = [column for run in runs for column in _main(run)]
    every += [column for run in runs for column in _further(run)]
    every += [
        MetricColumn(metric=NO_METRIC, aspect=aspect, heading=heading, table=ANSWERS_TITLE)
        for aspect, heading in HEADINGS.items()
    ]
    measured = {(score.metric, score.aspect) for run in runs for score in run.scores if score.n}
    found = {column.place: column for column in reversed(every)}  # of two headings, the first
    return [found[place] for place in dict.fromkeys(column.place for column in every) if place in measured]


def headings(run: Reported) -> Mapping[tuple[str, str], str]:
    """Return the headings of all columns of the run's tables, by metric and aspect.

    Where two are headed alike, with the title of their table (or the name of their metric) before it.
    """
    found = {column.place: column for column in reversed([*_main(run), *_further(run)])}  # of two headings, the first
    alike = Counter(column.heading for column in found.values())
    return {
        place: one.heading if alike[one.heading] == 1 else f"{one.table or one.metric}: {one.heading}"
        for place, one in found.items()
    }


def columns_by_table(shown: Sequence[MetricColumn]) -> list[list[MetricColumn]]:
    """The columns of each table."""
    groups: dict[tuple[str, str], list[MetricColumn]] = {}
    for column in shown:
        groups.setdefault((column.table, column.metric), []).append(column)
    return list(groups.values())


def _main(run: Reported) -> Iterator[MetricColumn]:
    for metric, named in run.columns.items():
        all_ = {score.aspect: score.aspect for score in run.scores if score.metric == metric}
        for aspect, heading in (named or all_).items():
            yield MetricColumn(metric=metric, aspect=aspect, heading=heading)


def _further(run: Reported) -> Iterator[MetricColumn]:
    for metric, tables in run.tables.items():
        for title, named in tables.items():
            for aspect, heading in named.items():
                yield MetricColumn(metric=metric, aspect=aspect, heading=heading, table=title)


def run_json(path: str, spec: RunSpec, scores: Sequence[MetricScore]) -> dict[str, Any]:
    """Return a run with its scores as JSON values."""
    names = {"editor": spec.editor.name, "dataset": spec.dataset.component.name, "model": spec.model.id}
    return {"run": path, "id": spec.id, **names, "spec": to_json(spec), "scores": to_json(scores)}


def run_labels(runs: Sequence[Reported]) -> list[str]:
    """A name for each run: its editor, and what else tells it from the others."""
    told = [[run.spec.editor.name] for run in runs]
    plans = [_plan_parts(run.spec.plan) for run in runs]
    for differing in (
        ["" if without_model(run.spec) else run.spec.model.id for run in runs],
        [run.spec.dataset.component.name for run in runs],
        *([plan.get(part, "") for plan in plans] for part in dict.fromkeys(part for plan in plans for part in plan)),
    ):
        if len(set(differing) - {""}) > 1:
            for words, word in zip(told, differing, strict=True):
                words.append(word)
    names = [", ".join(word for word in words if word) for words in told]
    return [
        name if names.count(name) == 1 else f"{name} {run.spec.id[:8]}" for name, run in zip(names, runs, strict=True)
    ]


def without_model(spec: RunSpec) -> bool:
    """Whether the editor answers without a model, as some controls do."""
    return spec.model == NO_MODEL


def plan_words(spec: RunSpec) -> str:
    """The protocol of a run in words."""
    return ", ".join(_plan_parts(spec.plan).values())


def _plan_parts(plan: Plan) -> dict[str, str]:
    """The same, by what it says: runs that differ in one part need be told apart by that alone."""
    size = "all cases" if plan.size is None else "each case" if plan.size == 1 else f"{plan.size} cases"
    if plan.sequential:
        often = "each batch" if plan.eval_every == 1 else f"every {plan.eval_every} batches"
        when = "at the end" if plan.eval_every is None else f"after {often}"
        one = "case by case" if plan.size == 1 else f"{size} at a time"
        parts = {
            "protocol": "sequential",
            "size": f"{one} on top of one another",
            "asked": f"{plan.eval_set} cases asked {when}",
        }
    elif plan.protocol == "partition":
        parts = {"protocol": "partition", "size": f"{size} edited {'alone' if plan.size == 1 else 'together'}"}
    else:
        parts = {"protocol": "sample", "size": f"{'all' if plan.size is None else plan.size} edited"}
    if plan.limit is not None:
        parts["limit"] = f"limit {plan.limit}"
    if plan.eval_limit is not None:
        parts["ask"] = f"{plan.eval_limit} asked"
    return parts


def run_names(runs: Sequence[Reported]) -> list[str]:
    """Of each run what tells it from the others: its editor, size, seed, and options of which others have another.

    As a command line has them; what was not set is not said. An editor that was given each question's own edits is
    marked.
    """
    facts = [_facts(run) for run in runs]
    return [
        " ".join(
            [run.spec.editor.name]
            + [f"{name}={value}" for name, value in own.items() if value and _differs(name, facts)]
            + (["(given own edits)"] if run.spec.own_edits else [])
        )
        for run, own in zip(runs, facts, strict=True)
    ]


def _facts(run: Reported) -> dict[str, str]:
    """Empty for what was not set: it differs from what was."""
    spec, plan = run.spec, run.spec.plan
    size = "batch" if plan.protocol == "partition" else "edited"
    found = {size: "all" if plan.size is None else str(plan.size), "seed": str(spec.seed), "protocol": plan.protocol}
    found |= {"limit": _words(plan.limit), "ask": _words(plan.eval_limit), "sequential": _words(plan.sequential)}
    found["edited-form"] = spec.edited_form
    found |= {name: digest[:8] for name, digest in spec.editor.dependencies.items()}
    return found | {f"{spec.editor.name}.{name}": _words(value) for name, value in spec.editor.options.items()}


def _words(value: Any) -> str:
    return "" if value is None else option_text(value, "")


def _differs(name: str, facts: Sequence[Mapping[str, str]]) -> bool:
    """Whether the runs that have it do not have the same; an option bears its editor's name."""
    return len({own[name] for own in facts if name in own}) > 1
