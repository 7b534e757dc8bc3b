"""Score tables: one row a run, one column an aspect and style, no number without its n."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ke_core.data.queries import Phase
from ke_core.data.results import Score
from ke_core.report.effort import CORE
from ke_core.report.numbers import NOTHING, SHARE, interval, number
from ke_core.report.run import Column, Reported, columns, labels, without_model
from ke_core.report.text import literal, plain_table, titled

AFTER: Phase = "after"
NARROW = 9
"""Characters of an interval, and so of a column: seven of them fit beside their labels in 100."""


@frozen(kw_only=True)
class Row:
    """One row: what is written before it, and where its numbers come from."""

    label: str
    run: Reported
    phase: Phase
    style: str

    def score(self, column: Column, tag: tuple[str, str] | None = None) -> Score | None:
        """The number in that column, if it was measured."""
        found = self.run.score(column, self.phase, self.style, tag)
        return found if found is not None and found.n else None


def score_tables(runs: Sequence[Reported]) -> list[Group]:
    """The main tables, one a metric, then those under them. Each cell: the number, and under it the 95 % interval; n
    in the heading where all agree. The unedited model stands first, once if all runs found the same of it.
    """
    shown = columns(runs)
    return [score_table(runs, group) for group in _grouped(shown)] or [score_table(runs, [])]


def score_table(runs: Sequence[Reported], shown: Sequence[Column] | None = None) -> Group:
    """One table, of the columns given, else of all."""
    shown = columns(runs) if shown is None else shown
    rows = [*_unedited(runs, shown), *_edited(runs)]
    if shown:
        rows = [row for row in rows if any(row.score(column) for column in shown)] or rows
    common = [_common_n(rows, column) for column in shown]
    styled = any(row.style for row in rows)  # what is said of a model as a whole was not asked in any style
    table = plain_table("editor", *(["asked as"] if styled else []))
    for column, n in zip(shown, common, strict=True):
        _add_numbers(table, column, _measure(rows, column), f"n {n:,}" if n is not None else "")
    above = None
    for row in rows:
        cells = [_cell(row.score(column), with_n=n is None) for column, n in zip(shown, common, strict=True)]
        names = [literal(row.label if row.label != above else ""), *([literal(row.style)] if styled else [])]
        table.add_row(*names, *cells)
        above = row.label
    return titled(_title(runs, shown), table)


def slice_tables(runs: Sequence[Reported]) -> list[Group]:
    """For each tag that scores are broken down by: its values down, the runs under each. Edited models only."""
    tags = dict.fromkeys(tag for run in runs for score in run.scores for tag in score.tags)
    return [
        _slice_table(runs, tag, group, sliced)
        for tag in tags
        for group in _grouped(columns(runs), mains_together=True)
        if (sliced := [score for run in runs for score in run.scores if tag in score.tags and _is_in(score, group)])
    ]


def _grouped(shown: Sequence[Column], *, mains_together: bool = False) -> list[list[Column]]:
    """The columns of each table; ``mains_together``: the main tables of all metrics as one."""
    groups: dict[tuple[str, str], list[Column]] = {}
    for column in shown:
        whose = "" if mains_together and not column.table else column.metric
        groups.setdefault((column.table, whose), []).append(column)
    return list(groups.values())


def _is_in(score: Score, group: Sequence[Column]) -> bool:
    return score.phase == AFTER and bool(score.n) and any(column.holds(score) for column in group)


def _slice_table(runs: Sequence[Reported], tag: str, group: Sequence[Column], sliced: Sequence[Score]) -> Group:
    values = sorted(
        {score.tags[tag] for score in sliced}, key=lambda value: (len(value) if value.isdigit() else 0, value)
    )
    shown = [column for column in group if any(column.holds(score) for score in sliced)]
    table = plain_table(tag, "editor", "asked as")
    for column in shown:
        _add_numbers(table, column)
    joint = " " if max((len(f"{number(score)} ({score.n:,})") for score in sliced), default=0) <= NARROW else "\n"
    for value in values:
        above = None
        for row in _edited(runs):
            cells = [_short_cell(row.score(column, (tag, value)), joint=joint) for column in shown]
            label = row.label if row.label != above else ""
            table.add_row(literal(value if above is None else ""), literal(label), literal(row.style), *cells)
            above = row.label
        table.add_section()
    what = f"{group[0].table} " if group[0].table else ""
    return titled(f"{what}by {tag}, after editing: value in % (n)", table)


def _edited(runs: Sequence[Reported]) -> list[Row]:
    return [
        Row(label=label, run=run, phase=AFTER, style=style)
        for label, run in zip(labels(runs), runs, strict=True)
        for style in run.styles(AFTER)
    ]


def _unedited(runs: Sequence[Reported], shown: Sequence[Column]) -> list[Row]:
    """Rows of the unedited model: once where the runs agree on it, else for each run."""
    rows = [
        [Row(label=f"before {label}", run=run, phase="before", style=style) for style in run.styles("before")]
        for label, run in zip(labels(runs), runs, strict=True)
    ]
    found = [made for made in rows if made]
    if len({tuple(_numbers(row, shown) for row in made) for made in found}) == 1:
        return [evolve(row, label="unedited") for row in found[0]]
    return [row for made in found for row in made]


def _numbers(row: Row, shown: Sequence[Column]) -> tuple[object, ...]:
    scores = [row.score(column) for column in shown]
    return (row.style, *(None if score is None else (score.value, score.n) for score in scores))


def _common_n(rows: Sequence[Row], column: Column) -> int | None:
    """The n of a column where every row that has a number has the same."""
    found = {score.n for row in rows for score in [row.score(column)] if score is not None}
    return found.pop() if len(found) == 1 else None


def _cell(score: Score | None, *, with_n: bool) -> Text:
    if score is None:
        return Text(NOTHING)
    lines = [number(score), interval(score), f"n {score.n:,}" if with_n else ""]
    return Text("\n".join(line for line in lines if line))


def _short_cell(score: Score | None, *, joint: str) -> Text:
    return Text(NOTHING if score is None else f"{number(score)}{joint}({score.n:,})")


def _add_numbers(table: Table, column: Column, *under: str) -> None:
    """A column as narrow as its numbers: its heading stands word under word, a long one cut at its hyphens."""
    words = [word if len(word) <= NARROW else word.replace("-", "-\n") for word in column.heading.split()]
    heading = "\n".join([*words, *filter(None, under)])
    table.add_column(literal(heading, "bold"), justify="right", no_wrap=True)


def _measure(rows: Sequence[Row], column: Column) -> str:
    """What a column is measured in, in brackets; nothing for plain numbers, nor for shares where the title says so."""
    found = {score.measure for row in rows for score in [row.score(column)] if score is not None}
    said = {"", SHARE} if column.metric != CORE else {""}
    return "".join(f"[{measure}]" for measure in sorted(found - said))


def _title(runs: Sequence[Reported], shown: Sequence[Column]) -> str:
    datasets = dict.fromkeys(run.spec.dataset.component.name for run in runs)
    models = dict.fromkeys(run.spec.model.id for run in runs if not without_model(run.spec))
    metrics = {column.metric for column in shown}
    several = len({column.metric for column in columns(runs) if not column.table}) > len(metrics) == 1
    title = shown[0].table if shown else ""
    what = f"{title or metrics.copy().pop()}: " if title or several else ""
    less = any(metrics & run.less for run in runs)
    values = "less is better, 95 % interval" if less else "value in %, 95 % interval"
    if metrics == {CORE}:
        values = "what a question took after editing, its mean"
    return f"{what}{', '.join(datasets)} on {', '.join(models) or 'no model'}: {values}"
