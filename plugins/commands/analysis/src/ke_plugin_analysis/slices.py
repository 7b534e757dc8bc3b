"""Breakdowns of scores by tag, as grids."""

from __future__ import annotations

from collections.abc import Sequence

from ke_core.app import (
    AFTER,
    BUCKET,
    NO_METRIC,
    PART_TAG,
    PROMPT,
    TESTED,
    ColumnHeader,
    Grid,
    Line,
    MetricColumn,
    Reported,
    ReportRow,
    column_measure,
    columns_by_table,
    edited_rows,
    metric_columns,
    prompt_name,
    value_notes,
)
from ke_core.plugin import MetricScore

PARTS = {
    PART_TAG: {"edited": "edited", "control": "unedited"},
    BUCKET: {"test only": "test only", "shared": "shared", "unedited": "unedited"},
}
"""Tags that split a total into parts, with the values and their labels. Other values are not part of a total."""


TOTALS = (*PARTS, TESTED)


def slice_grids(runs: Sequence[Reported]) -> list[Grid]:
    """Return a grid for each tag: a row for each value and run, for edited models only.

    Each table of a metric has its own grid, because one grid would be too wide.
    """
    tags = dict.fromkeys(tag for run in runs for score in run.scores for tag in score.tags if tag not in TOTALS)
    return _part_grids(runs) + [
        _slice_grid(runs, tag, group, sliced)
        for tag in tags
        for group in columns_by_table(metric_columns(runs))
        if (sliced := [score for run in runs for score in run.scores if tag in score.tags and _is_in(score, group)])
    ]


def _part_grids(runs: Sequence[Reported]) -> list[Grid]:
    """Return the total and its parts, as in MQuAKE-Remastered; for CF-6334, the parts are its three buckets of cases.

    The total is pooled over cases. It is not the mean of the parts.
    """
    made, rows = [], edited_rows(runs)
    tags = {pair for run in runs for score in run.scores for pair in score.tags.items()}
    for key, parts in PARTS.items():
        if not any((key, value) in tags for value in parts):
            continue
        whole = (TESTED, "yes") if key == BUCKET else None
        tags_of_columns: list[tuple[str, tuple[str, str] | None]] = [("total", whole)]
        tags_of_columns += [(name, (key, value)) for value, name in parts.items()]
        lines = tuple(
            Line(
                names=(_heading(rows, column), row.label, prompt_name(row.style)),
                scores=tuple(row.score(column, tag) for _, tag in tags_of_columns),
            )
            for column in metric_columns(runs)
            if not column.table
            for row in rows
            if any(row.score(column, tag) for _, tag in tags_of_columns[1:])
        )
        title = f"total ({', '.join(parts.values())}), after editing: value in % (n)"
        heads = tuple(ColumnHeader(words=name) for name, _ in tags_of_columns)
        made.append(Grid(title=title, names=("score", "editor", PROMPT), heads=heads, lines=lines, by=key))
    return [grid for grid in made if grid.lines]


def sorted_tag_values(values: set[str]) -> list[str]:
    """Return the values of a tag, sorted, with 2 before 10."""
    return sorted(values, key=lambda value: (len(value) if value.isdigit() else 0, value))


def _slice_grid(
    runs: Sequence[Reported], tag: str, group: Sequence[MetricColumn], sliced: Sequence[MetricScore]
) -> Grid:
    shown = [column for column in group if any(column.holds(score) for score in sliced)]
    mains = {column.metric for column in metric_columns(runs) if not column.table}
    rows = edited_rows(runs)
    what = group[0].table or (group[0].metric if len(mains) > 1 else "")
    return Grid(
        title=f"{what} by {tag}, after editing: {', '.join(value_notes(runs, shown)) or 'value'} (n)".lstrip(),
        names=(tag, "editor", PROMPT),
        heads=tuple(ColumnHeader(words=column.heading, measure=column_measure(rows, column)) for column in shown),
        lines=tuple(
            Line(
                names=(value, row.label, prompt_name(row.style)),
                scores=tuple(row.score(column, (tag, value)) for column in shown),
            )
            for value in sorted_tag_values({score.tags[tag] for score in sliced})
            for row in rows
            if any(row.score(column, (tag, value)) for column in shown)
        ),
        group=tuple(shown),
        by=tag,
    )


def _is_in(score: MetricScore, group: Sequence[MetricColumn]) -> bool:
    return score.phase == AFTER and bool(score.n) and any(column.holds(score) for column in group)


def _heading(rows: Sequence[ReportRow], column: MetricColumn) -> str:
    """Return the heading with the measure."""
    measure = column_measure(rows, column)
    return f"{column.heading} [{measure}]" if measure else column.heading


COST_MEASURES = ("s", "MiB", "calls", "tokens")
"""Measures of time, memory and work."""


def of_costs(grid: Grid) -> bool:
    """Return whether all columns are costs: how answers ended, time, memory or work."""
    return bool(grid.group) and all(
        column.metric == NO_METRIC or head.measure in COST_MEASURES
        for column, head in zip(grid.group, grid.heads, strict=True)
    )


def is_judged(grid: Grid) -> bool:
    """Return whether the numbers depend on a judge. Costs and values of a model (without style) do not."""
    return PROMPT in grid.names and not of_costs(grid)
