"""The content of a report: runs with their scores, and the columns of its tables."""

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
from ke_core.spec.runspec import Component, Plan, RunSpec

Place = tuple[str, str, Phase, str, tuple[tuple[str, str], ...]]
"""Metric, aspect, phase, style, and the tags of the slice."""


@frozen(kw_only=True)
class Reported:
    """The data of one run in a report.

    ``columns``: by metric, its aspects and their headings in table order. ``tables``: by metric and title, the same for
    its further tables. ``less``: metrics and aspects for which less is better. ``counts``: by metric and aspect, what
    values of 1 count. ``metrics``: with their options. ``complete``: every planned request is recorded.
    """

    path: str
    spec: RunSpec
    scores: tuple[MetricScore, ...]
    columns: Mapping[str, Mapping[str, str]] = field(factory=dict)
    tables: Mapping[str, Mapping[str, Mapping[str, str]]] = field(factory=dict)
    less: frozenset[tuple[str, str]] = frozenset()
    counts: Mapping[tuple[str, str], str] = field(factory=dict)
    metrics: tuple[Component, ...] = ()
    tally: Tally = field(factory=Tally)
    complete: bool = True

    def score(
        self, column: MetricColumn, phase: Phase, style: str, tag: tuple[str, str] | None = None
    ) -> MetricScore | None:
        """Return the score in that column, phase and style, of all cases or of those with a tag."""
        return self._by_place.get((*column.place, phase, style, (tag,) if tag else ()))

    @cached_property
    def _by_place(self) -> Mapping[Place, MetricScore]:
        """Scores by place, because sequential runs have many slices."""
        places = [(one.metric, one.aspect, one.phase, one.style, tuple(one.tags.items())) for one in self.scores]
        return dict(zip(reversed(places), reversed(self.scores), strict=True))  # the first one of each place wins

    def styles(self, phase: Phase) -> list[str]:
        """Return the styles with scores in that phase, in the order of the specification."""
        used = {score.style for score in self.scores if score.phase == phase and score.n}
        return list(dict.fromkeys((*(style for style in self.spec.styles if style in used), *sorted(used))))


@frozen(kw_only=True)
class MetricColumn:
    """One column of a table: an aspect of a metric. ``table``: its title; empty for the metric's main table."""

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
    """Return the columns for which any of the runs has a number, in the order of the metrics' specifications.

    The main table of each metric comes first, then all further tables, then the counts of answers.
    """
    every = [column for run in runs for column in _main(run)]
    every += [column for run in runs for column in _further(run)]
    every += [
        MetricColumn(metric=NO_METRIC, aspect=aspect, heading=heading, table=ANSWERS_TITLE)
        for aspect, heading in HEADINGS.items()
    ]
    measured = {(score.metric, score.aspect) for run in runs for score in run.scores if score.n}
    found = {column.place: column for column in reversed(every)}  # the first heading of each place wins
    return [found[place] for place in dict.fromkeys(column.place for column in every) if place in measured]


def headings(run: Reported) -> Mapping[tuple[str, str], str]:
    """Return the headings of all columns of the run's tables, by metric and aspect.

    If several columns have the same heading, the title of the table or the name of the metric precedes it.
    """
    every = [*_main(run), *_further(run)]
    found = {column.place: column for column in reversed(every)}  # the first heading of each place wins
    alike = Counter(column.heading for column in found.values())
    return {
        place: one.heading if alike[one.heading] == 1 else f"{one.table or one.metric}: {one.heading}"
        for place, one in found.items()
    }


def columns_by_table(shown: Sequence[MetricColumn]) -> list[list[MetricColumn]]:
    """Group columns by table."""
    groups: dict[tuple[str, str], list[MetricColumn]] = {}
    for column in shown:
        groups.setdefault((column.table, column.metric), []).append(column)
    return list(groups.values())


def _main(run: Reported) -> Iterator[MetricColumn]:
    for metric, named in run.columns.items():
        all_ = {score.aspect: score.aspect.replace("/", " ") for score in run.scores if score.metric == metric}
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


def run_labels(runs: Sequence[Reported], *, ids: bool = True) -> list[str]:
    """Return a name for each run: its editor, and what distinguishes it from the other runs; if needed its id."""
    told, facts = [[run.spec.editor.name] for run in runs], [_facts(run.spec) for run in runs]
    for name in dict.fromkeys(name for own in facts for name in own):
        if len({own[name] for own in facts if name in own}) > 1:
            for words, own in zip(told, facts, strict=True):
                words.append(own.get(name, ""))
    names = [", ".join(word for word in words if word) for words in told]
    named = {(name, run.spec.id) for name, run in zip(names, runs, strict=True)}
    unclear = {name for name, count in Counter(name for name, _id in named).items() if ids and count > 1}
    return [f"{name} {run.spec.id[:8]}" if name in unclear else name for name, run in zip(names, runs, strict=True)]


def _facts(spec: RunSpec) -> dict[str, str]:
    """Return what may distinguish a run, in words, by name."""
    plan, found = _plan_parts(spec.plan), {} if without_model(spec) else {"model": spec.model.id}
    found |= {"dataset": spec.dataset.component.name, **plan, **{name: plan.get(name, "") for name in ("limit", "ask")}}
    own = {"form": f"edited-form={spec.edited_form}"}  # compared with other runs of this editor only, as is the rest
    own |= {name: "" if it is None else f"{name}={option_text(it, '')}" for name, it in spec.editor.options.items()}
    own |= {name: f"{name}={digest[:8]}" for name, digest in spec.editor.dependencies.items()}
    return found | {"seed": f"seed={spec.seed}"} | {f"{spec.editor.name}.{name}": words for name, words in own.items()}


def without_model(spec: RunSpec) -> bool:
    """Return whether the editor answers without a model, as some baselines do."""
    return spec.model == NO_MODEL


def plan_words(spec: RunSpec) -> str:
    """Return the protocol of a run in words."""
    return ", ".join(_plan_parts(spec.plan).values())


def _plan_parts(plan: Plan) -> dict[str, str]:
    """Return the parts of the protocol in words, by name."""
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
