"""Score tables as plain data.

The terminal, HTML, LaTeX and Markdown draw the same grids, so that numbers cannot differ between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from ke_core.results.formatting import no_interval, shown_unit
from ke_core.results.reported import MetricColumn, Reported, columns_by_table, metric_columns, run_labels, without_model
from ke_core.results.tally import NO_METRIC
from ke_core.spec.queries import Phase
from ke_core.spec.records import OWN
from ke_core.spec.results import SHARE, MetricScore

AFTER: Phase = "after"
UNEDITED = "unedited"
FEW = 10
"""With fewer observations, a title says that intervals are unreliable."""
PROMPT = "prompt"
"""The heading of the column of prompt styles."""


def prompt_name(style: str) -> str:
    """Return a prompt style as tables name it."""
    return "method's own" if style == OWN else style


@frozen(kw_only=True)
class ReportRow:
    """The label of a row and the source of its scores."""

    label: str
    run: Reported
    phase: Phase
    style: str

    def score(self, column: MetricColumn, tag: tuple[str, str] | None = None) -> MetricScore | None:
        """Return the score in that column, if it was measured."""
        found = self.run.score(column, self.phase, self.style, tag)
        return found if found is not None and found.n else None


@frozen(kw_only=True)
class ColumnHeader:
    """The header of a column of numbers. ``n``: the n of all numbers in it, if it is the same.

    ``measure``: empty for plain numbers, and for fractions if the title names their unit.
    """

    words: str
    measure: str = ""
    n: int | None = None

    @property
    def under(self) -> list[str]:
        """The lines under the words: unit and n, if given."""
        return [*([f"[{self.measure}]"] if self.measure else []), *([] if self.n is None else [f"n {self.n:,}"])]


@frozen(kw_only=True)
class Line:
    """One line of a grid: its names, and a score or None for each column."""

    names: tuple[str, ...]
    scores: tuple[MetricScore | None, ...]


@frozen(kw_only=True)
class Grid:
    """A table. ``names``: the headings of the first columns. ``group``: the columns of numbers.

    ``by``: the tag of the breakdown. Its value is then the first name of each line.
    """

    title: str
    names: tuple[str, ...]
    heads: tuple[ColumnHeader, ...]
    lines: tuple[Line, ...]
    group: tuple[MetricColumn, ...] = ()
    by: str = ""

    def thinned(self) -> Iterator[tuple[tuple[str, ...], Line]]:
        """Yield each line with its printed names. Names that repeat the line above are omitted."""
        above: tuple[str, ...] = ()
        for line in self.lines:
            same = [line.names[: at + 1] == above[: at + 1] for at in range(len(line.names) - 1)]
            shown = ("" if told else name for name, told in zip(line.names, (*same, False), strict=True))
            yield tuple(shown), line
            above = line.names


def score_grids(runs: Sequence[Reported]) -> list[Grid]:
    """Return the main table of each metric, then the further tables.

    The unedited model comes first, with one row if all runs agree on it.
    """
    return [_score_grid(runs, group) for group in columns_by_table(metric_columns(runs))] or [_score_grid(runs, [])]


def _score_grid(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> Grid:
    """Return the table of the columns ``shown``."""
    rows = [*unedited_rows(runs, shown), *edited_rows(runs)]
    if shown:
        rows = [row for row in rows if any(row.score(column) for column in shown)] or rows
    styled = any(row.style for row in rows)  # scores of models as a whole have no style
    return Grid(
        title=_title(runs, shown),
        names=("editor", PROMPT) if styled else ("editor",),
        heads=tuple(
            ColumnHeader(words=column.heading, measure=column_measure(rows, column), n=_common_n(rows, column))
            for column in shown
        ),
        lines=tuple(
            Line(
                names=(row.label, prompt_name(row.style)) if styled else (row.label,),
                scores=tuple(row.score(column) for column in shown),
            )
            for row in rows
        ),
        group=tuple(shown),
    )


def edited_rows(runs: Sequence[Reported]) -> list[ReportRow]:
    """Return a row for each run and each style after editing."""
    return _rows(runs, AFTER)


def unedited_rows(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> list[ReportRow]:
    """Return the rows of the unedited model: once, as ``UNEDITED``, if all runs agree, else for each run."""
    rows = _rows(runs, "before", lead="before ")
    found = [(row, _numbers(row, shown)) for row in rows]
    most = sorted(runs, key=lambda run: -len(run.styles("before")))
    fullest = {
        style: max((one for one in found if one[0].style == style), key=lambda one: len(one[1]))
        for style in dict.fromkeys(style for run in most for style in run.styles("before"))
    }
    asked = {(row.run.spec.model.id, row.run.spec.dataset.sha256) for row in rows}
    if len(asked) == 1 and all(own.items() <= fullest[row.style][1].items() for row, own in found):
        return [evolve(row, label=UNEDITED) for row, _own in fullest.values()]
    return rows


def _rows(runs: Sequence[Reported], phase: Phase, *, lead: str = "") -> list[ReportRow]:
    return [
        ReportRow(label=f"{lead}{label}", run=run, phase=phase, style=style)
        for label, run in zip(run_labels(runs), runs, strict=True)
        for style in run.styles(phase)
    ]


def _numbers(row: ReportRow, shown: Sequence[MetricColumn]) -> dict[MetricColumn, tuple[float | None, int]]:
    """Return value and n of each measured column."""
    found = ((column, row.score(column)) for column in shown)
    return {column: (score.value, score.n) for column, score in found if score is not None}


def _common_n(rows: Sequence[ReportRow], column: MetricColumn) -> int | None:
    """Return the n of a column if all its numbers have the same."""
    found = {score.n for row in rows for score in [row.score(column)] if score is not None}
    return found.pop() if len(found) == 1 else None


def column_measure(rows: Sequence[ReportRow], column: MetricColumn) -> str:
    """Return the unit of a column. Empty for plain numbers, and for percentages if the title names the unit."""
    found = {score.measure for row in rows for score in [row.score(column)] if score is not None}
    said = {"", SHARE} if column.metric != NO_METRIC else {""}
    return ", ".join(sorted(map(shown_unit, found - said)))


def _title(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> str:
    datasets = dict.fromkeys(run.spec.dataset.component.name for run in runs)
    models = dict.fromkeys(run.spec.model.id for run in runs if not without_model(run.spec))
    metrics = {column.metric for column in shown}
    several = len({column.metric for column in metric_columns(runs) if not column.table}) > len(metrics) == 1
    title = shown[0].table if shown else ""
    what = f"{title or metrics.copy().pop()}: " if title or several else ""
    values = ", ".join((*value_notes(runs, shown), *_interval_notes(runs, shown)))
    if metrics == {NO_METRIC}:
        values = "mean per question after editing"
    return f"{what}{', '.join(datasets)} on {', '.join(models) or 'no model'}: {values}"


def _interval_notes(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> Iterator[str]:
    """Yield whether the numbers of a table have intervals, and why some have none.

    Bootstrap intervals of few units are too narrow (Hesterberg 2015, "narrowness bias").
    """
    scores = [
        score for run in runs for score in run.scores
        if score.n and not score.tags and any(column.holds(score) for column in shown)
    ]  # fmt: skip
    without = dict.fromkeys(no_interval(score.note) for score in scores if score.interval is None)
    reasons = " or ".join(filter(None, without))
    with_interval = [score.n for score in scores if score.interval is not None]
    if with_interval or not scores:
        yield "95% interval" + (f" (unreliable for n below {FEW})" if min(with_interval, default=FEW) < FEW else "")
    if reasons:
        yield f"{'none' if with_interval else 'no interval'} for {reasons}"


def value_notes(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> Iterator[str]:
    """Yield notes that hold for all numbers of a table."""
    measures = {score.measure for run in runs for score in run.scores if any(column.holds(score) for column in shown)}
    if SHARE in measures or not measures:
        yield "value in %"
    if shown and all(any(column.place in run.less for run in runs) for column in shown):
        yield "less is better"
