"""Score tables as GitHub Markdown. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ke_core.app import (
    NO_VALUE,
    WARNING,
    ColumnHeader,
    Grid,
    Reported,
    escaped,
    format_interval,
    format_score,
    run_labels,
    score_grids,
    score_warnings,
    table_row,
)
from ke_core.plugin import MetricScore
from ke_plugin_analysis.footer import missing_answers, run_summary, shared_settings
from ke_plugin_analysis.slices import is_judged, slice_grids


def markdown(runs: Sequence[Reported], *, slices: bool = True) -> str:
    """Return the tables of the report, then the settings. ``slices``: include the breakdowns.

    A warning about the judge follows each table that depends on it.
    """
    lines: list[str] = []
    warned = score_warnings(runs)
    for grid in (*score_grids(runs), *(slice_grids(runs) if slices else [])):
        lines += [f"### {escaped(grid.title)}", "", *_table(grid), ""]
        for words in warned if is_judged(grid) else ():
            lines += [f"**{WARNING}**: {escaped(words)}", ""]
    lines += [f"- {escaped(what)}: {escaped(words)}" for what, words in shared_settings(runs)]
    for label, run in zip(run_labels(runs), runs, strict=True):
        lines += [f"- {escaped(label)}", *(f"  - {escaped(words)}" for words in run_summary(run))]
        lines += [f"  {_indent(words)}- {escaped(words)}" for words, _style in missing_answers(run)]
    return "\n".join([*lines, ""])


def _indent(words: str) -> str:
    """Return the leading spaces, which keep nested lines nested."""
    return words[: len(words) - len(words.lstrip(" "))]


def _table(grid: Grid) -> Iterator[str]:
    yield table_row([*map(escaped, grid.names), *(_head(head) for head in grid.heads)])
    yield table_row([*("---" for _name in grid.names), *("---:" for _head in grid.heads)])
    for line in grid.lines:  # each with all its names: a reader may sort or filter them
        cells = [_cell(score, head) for score, head in zip(line.scores, grid.heads, strict=True)]
        yield table_row([*map(escaped, line.names), *cells])


def _head(head: ColumnHeader) -> str:
    parts = [escaped(head.words), f"({escaped(head.measure)})" if head.measure else ""]
    parts.append(f"(n {head.n:,})" if head.n is not None else "")
    return " ".join(part for part in parts if part)


def _cell(score: MetricScore | None, head: ColumnHeader) -> str:
    if score is None:
        return NO_VALUE
    parts = [format_score(score), f"({format_interval(score)})" if format_interval(score) else ""]
    parts.append(f"n {score.n:,}" if head.n is None else "")
    return " ".join(part for part in parts if part)
