"""Tables that compare runs with the first one, the changed answers, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ke_core.app import (
    SECONDS,
    SHORTEST_SECONDS,
    WARNING,
    agreement_warning,
    count_noun,
    format_interval,
    format_score,
    literal,
    no_interval,
    one_line,
    plain_table,
    plan_words,
    prompt_name,
    titled,
    without_model,
)
from ke_core.plugin import SHARE, to_json
from ke_plugin_analysis.changes import ChangedAnswer, ChangedAnswers
from ke_plugin_analysis.common import SharedScores
from ke_plugin_analysis.comparing import ComparedRun, RunComparison
from ke_plugin_analysis.footer import component_words
from ke_plugin_analysis.observations import VERDICTS
from ke_plugin_analysis.pairs import Difference

NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NOTES = (
    "n: observations in both runs; lost, gained: right only in A, right only in the other run",
    "interval: cluster bootstrap; the resampling unit is the case, statement or whole batch; unreliable for n below 10",
    "p: McNemar's exact test of lost against gained, which treats observations as independent",
)


def comparison_page(found: RunComparison, *, cases: bool = False) -> Group:
    """Return the page for the terminal. ``cases``: print the changed answers, which must have been listed."""
    parts: list[RenderableType] = [*(literal(line) for line in _legend(found))]
    if warned := agreement_warning(found.judge):
        parts.append(literal(f"{WARNING}: {warned}", "bold red"))
    parts += [literal(line, "yellow") for line in (*_open(found.runs), *_unpaired(found.unpaired))]
    for place, table in enumerate(found.differences, start=1):
        parts += [Text(), _table(found, table, _name(place))]
    parts += [literal(note, "dim") for note in (*NOTES, *_holm(found))]
    for made in found.in_all:
        parts += [Text(), _in_all(found, made) if made.queries else literal(_nothing_in_all(made))]
    for place, changes in enumerate(found.changed, start=1):
        parts.append(literal(_changed(changes, _name(place))))
        parts += [literal(f"  {line}") for line in _listed(changes.listed)] if cases else []
    if not cases and any(changes.lost[0] or changes.gained[0] for changes in found.changed):
        parts.append(literal("--cases lists them", "dim"))
    return Group(*parts)


def comparison_json(found: RunComparison) -> dict[str, Any]:
    """Return all metrics and aspects as JSON values. Changed answers are included if they were listed (``listing``)."""
    return {
        "judge": to_json(found.judge),
        "warning": agreement_warning(found.judge),
        "cases": found.cases,
        "runs": [
            {"path": run.path, "id": run.spec.id, "editor": run.spec.editor.name, "model": run.spec.model.id}
            | {"planned": run.planned, "open": run.open}
            for run in found.runs
        ],
        "against_first": [
            {
                "run": run.path,
                "differences": [{**to_json(one), "difference": one.difference} for one in table],
                "changed": to_json(changes.listed, list[ChangedAnswer]),
                "unpaired_cases": unpaired,
            }
            for run, table, changes, unpaired in zip(
                found.runs[1:], found.differences, found.changed, found.unpaired, strict=True
            )
        ],
        "on_queries_of_all": to_json(list(found.in_all), list[SharedScores]),
    }


def comparison_rows(found: RunComparison) -> list[dict[str, Any]]:
    """Return one row for each score and each further run, for the Python API."""
    return [
        {
            "first": found.runs[0].spec.editor.name, "second": run.spec.editor.name, "metric": one.metric,
            "aspect": one.aspect, "phase": one.phase, "styles": ", ".join(dict.fromkeys(one.styles)),
            "value first": one.first, "value second": one.second, "difference": one.difference,
            "low": one.interval and one.interval.low, "high": one.interval and one.interval.high,
            "n": one.n, "p": one.p, "p corrected": one.adjusted,
        }
        for run, scores in zip(found.runs[1:], found.differences, strict=True)
        for one in scores
    ]  # fmt: skip


def _legend(found: RunComparison) -> Iterator[str]:
    for place, run in enumerate(found.runs):
        model = "no model" if without_model(run.spec) else run.spec.model.id
        own = ", given each question's own edits" if run.spec.own_edits else ""
        yield f"{_name(place)}  {run.spec.editor.name} on {model}, {plan_words(run.spec)}{own}  ({run.path})"
    yield f"{count_noun(found.cases, 'case')} of {found.runs[0].spec.dataset.component.name} in all runs"
    yield f"judge: {component_words(found.judge)}"


def _open(runs: Sequence[ComparedRun]) -> Iterator[str]:
    for place, run in enumerate(runs):
        if run.open:
            yield (
                f"{_name(place)} is not finished: {run.open:,} of {count_noun(run.planned, 'case')} have no answers "
                "yet; the common cases are compared"
            )


def _unpaired(counts: Sequence[int]) -> Iterator[str]:
    for place, count in enumerate(counts, start=1):
        if count:
            words = f"{count_noun(count, 'case')} left out: edited in one run, control in the other"
            yield f"{_name(place)} against A: {words}"


def _table(found: RunComparison, table: Sequence[Difference], name: str) -> Group:
    drawn = plain_table("", "prompt", "A", name, f"{name} - A", "95% interval", "n", "lost", "gained", "p")
    for column in drawn.columns[2:]:
        column.justify, column.no_wrap = "right", True
    metric = None
    for one in filter(_shown, table):
        heading = _heading(found, one)
        if heading is None:
            continue
        if metric not in (None, one.metric):
            drawn.add_section()
        metric = one.metric
        adjusted = "" if one.adjusted is None else _p(one.adjusted)
        counts = ["" if count is None else f"{count:,}" for count in (one.lost, one.gained)]
        numbers = [_value(one.first, one), _value(one.second, one), _value(one.difference, one, sign="+")]
        drawn.add_row(
            *map(literal, (heading, _prompts(one.styles), *numbers, _interval(one), f"{one.n:,}", *counts, adjusted))
        )
    return titled(f"{name} against A: values in %", drawn)


def _in_all(found: RunComparison, made: SharedScores) -> Group:
    """Return a table with one row per run over the same queries. The heading has n."""
    names = {score.aspect: score.n for score in made.scores[0] if score.n}
    columns = {aspect: word for aspect, word in found.specs[made.metric].columns.items() if aspect in names}
    drawn = plain_table("", "prompt", *(f"{word}\nn {names[aspect]:,}" for aspect, word in columns.items()))
    for column in drawn.columns[2:]:
        column.justify, column.no_wrap = "right", True
    for place, (style, scores) in enumerate(zip(made.styles, made.scores, strict=True)):
        of = {score.aspect: score for score in scores}
        shown = [of[name] for name in columns]
        cells = (
            "\n".join(filter(None, (format_score(one), format_interval(one) or no_interval(one.note)))) for one in shown
        )
        drawn.add_row(*map(literal, (_name(place), prompt_name(style), *cells)))
    title = f"{made.metric} on the {count_noun(sum(made.queries.values()), 'query', 'queries')} that all runs share"
    each = ", ".join(f"{columns.get(aspect, aspect)} {n:,}" for aspect, n in made.queries.items())
    return Group(
        titled(f"{title}: value in %, 95% interval", drawn),
        literal(f"queries with a value in every run: {each}; in each run: {_own(made)}", "dim"),
    )


def _nothing_in_all(made: SharedScores) -> str:
    return f"{made.metric}: no query has a value in every run (in each run: {_own(made)})"


def _own(made: SharedScores) -> str:
    return ", ".join(f"{_name(place)} {own:,}" for place, own in enumerate(made.own))


def _shown(one: Difference) -> bool:
    """True for rows after editing, and for rows before editing that differ: often the unedited model is the same."""
    same = one.first == one.second and not one.lost and not one.gained
    return one.phase == "after" or not same


def _heading(found: RunComparison, one: Difference) -> str | None:
    """Return the label of a row. None for aspects that the metric shows in no table.

    Aspects with equal headings in different tables are named by their id.
    """
    spec = found.specs[one.metric]
    further = {key: name for columns in spec.tables.values() for key, name in columns.items()}
    taken = set(spec.columns.values())
    named = {**spec.columns, **{key: key if name in taken else name for key, name in further.items()}}
    if named and one.aspect not in named:
        return None
    what = f"{one.aspect} queries" if one.metric == VERDICTS else named.get(one.aspect, one.aspect)
    unit = f" [{one.measure}]" if one.measure != SHARE else ""
    return f"{what}{unit}" + (", before" if one.phase == "before" else "")


def _value(value: float, one: Difference, sign: str = "") -> str:
    if one.measure == SECONDS and abs(value) < SHORTEST_SECONDS:
        return f"{0.0:{sign}.3f}"
    return f"{100 * value:{sign}z.1f}" if one.measure == SHARE else f"{value:{sign}.4g}"


def _interval(one: Difference) -> str:
    if one.interval is None:
        return no_interval(one.note)
    return f"{_value(one.interval.low, one, '+')} to {_value(one.interval.high, one, '+')}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _holm(found: RunComparison) -> Iterator[str]:
    if len(found.differences) > 1:
        yield f"p is corrected for {len(found.differences)} comparisons with A (Holm)"


def _changed(changes: ChangedAnswers, name: str) -> str:
    words = [
        f"{count_noun(answers, 'answer')} in {count_noun(cases, 'case')} right only in {where}"
        for where, (answers, cases) in (("A", changes.lost), (name, changes.gained))
    ]
    return f"{name} against A: {'; '.join(words)}"


def _listed(changes: Sequence[ChangedAnswer]) -> Iterator[str]:
    for one in changes:
        verdicts = " -> ".join(verdict.value for verdict in one.verdicts)
        answers = " -> ".join(repr(one_line(answer, 60)) for answer in one.answers)
        where = f"case {one.case}, {one.query} ({one.phase}, {_prompts(one.styles)})"
        yield f"{where}: {verdicts}: {answers}  {one_line(one.question, 100)}"


def _prompts(styles: tuple[str, str]) -> str:
    return " / ".join(prompt_name(style) for style in dict.fromkeys(styles))


def _name(place: int) -> str:
    return NAMES[place] if place < len(NAMES) else f"run {place + 1}"
