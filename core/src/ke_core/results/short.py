"""The short report: the main table, one sentence with counts, and warnings, in at least 80 columns.

``ke eval``, ``ke demo`` and ``ke report`` print it. ke-plugin-analysis draws the full report.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen
from rich.cells import cell_len
from rich.console import Group, RenderableType

from ke_core.results.footer import form_notes, losses, score_warnings, unfinished, without_values
from ke_core.results.formatting import NO_VALUE, count_noun, format_interval, format_score, joined_ends, literal
from ke_core.results.grid import Grid, Line, edited_rows, prompt_name, score_grids
from ke_core.results.reported import MetricColumn, Reported, columns_by_table, metric_columns, run_labels, without_model
from ke_core.results.tally import NO_METRIC
from ke_core.spec.observed import JUDGE_UNSURE
from ke_core.spec.results import SHARE, MetricScore

WIDTH = 80
MOST_ROWS = 9
"""With more rows, only the first prompt style of each run is shown."""
MOST_NAMED = 3
"""Maximum number of methods in the sentence."""
PRECISE = 1000
"""With fewer observations, percentages are rounded to integers, because their intervals are wide."""
GAP = "  "


def short_page(runs: Sequence[Reported], width: int = WIDTH) -> Group:
    """Return the main table of the first metric, the names of the others and the sentence of ``summary`` for each
    dataset, and the warnings.
    """
    lines: list[RenderableType] = []
    for dataset in dict.fromkeys(run.spec.dataset.component.name for run in runs):
        some = [run for run in runs if run.spec.dataset.component.name == dataset]
        grid, *others = score_grids(some)
        lines += [literal(""), literal(grid.title, "bold"), *map(literal, _table(grid, width)), literal("")]
        names = dict.fromkeys(other.group[0].metric for other in others)
        if more := [name for name in names if name not in (NO_METRIC, grid.group[0].metric)]:
            lines[-1:] = [literal(textwrap.fill(f"other metrics, with --full: {', '.join(more)}", WIDTH)), literal("")]
        lines += [literal(textwrap.fill(words, WIDTH)) for words in [summary(some)] if words]
    return Group(*lines[1:], *(literal(words, "yellow") for words in warnings(runs)))


def _table(grid: Grid, width: int) -> Iterator[str]:
    """Yield the lines of the table with as many columns as fit, at least one, and a line that names the others.

    Words of headings are not broken. Abbreviations are explained by the aspects they stand for.
    """
    rows = [*grid.thinned()]
    missing: dict[str, None] = {}
    if len(rows) > MOST_ROWS:
        missing = {f"prompt {names[-1]}": None for names, _line in rows if not names[0]}
        rows = [row for row in rows if row[0][0]]
    columns = [_name_column(name, [names[at] for names, _line in rows]) for at, name in enumerate(grid.names)]
    fixed = len(columns) + 1
    columns += [_score_column(grid, at, [line for _names, line in rows]) for at in range(len(grid.heads))]
    while len(columns) > fixed and sum(column.width + len(GAP) for column in columns) - len(GAP) > width:
        columns.pop()
    height = max(len(column.head) for column in columns)
    for row in zip(*(column.text(height) for column in columns), strict=True):
        yield GAP.join(row).rstrip()
    if short := [one for one in grid.group[: len(columns) - len(grid.names)] if one.heading.isupper()]:
        words = ", ".join(f"{one.heading}: {one.aspect.replace('-', ' ')}" for one in short)
        yield from textwrap.wrap(words, WIDTH)
    missing |= {head.words: None for head in grid.heads[len(columns) - len(grid.names) :]}
    if missing:
        yield from textwrap.wrap(f"not shown here: {', '.join(missing)}", WIDTH)


@frozen(kw_only=True)
class _Column:
    """The lines of a heading, and the cells. ``left``: align left."""

    head: Sequence[str]
    cells: Sequence[str]
    left: bool = False

    @property
    def width(self) -> int:
        """The width of the longest line, in terminal cells."""
        return max(map(cell_len, [*self.head, *self.cells]))

    def text(self, height: int) -> Iterator[str]:
        """Yield the heading at the bottom of ``height`` lines, a rule, and the cells, padded to the same width."""
        for line in (*[""] * (height - len(self.head)), *self.head, "─" * self.width, *self.cells):
            space = " " * (self.width - cell_len(line))
            yield line + space if self.left else space + line


def _name_column(heading: str, names: Sequence[str]) -> _Column:
    return _Column(head=[heading], cells=names, left=True)


def _score_column(grid: Grid, at: int, lines: Sequence[Line]) -> _Column:
    """Return a column of numbers with their intervals. If all have the same n, the heading contains it."""
    head = grid.heads[at]
    cells = [_cell(line.scores[at], with_n=head.n is None) for line in lines]
    width = max(map(cell_len, [*cells, *head.words.split()]))
    words = textwrap.wrap(head.words, width, break_long_words=False, break_on_hyphens=False)
    return _Column(head=[*words, *head.under], cells=cells)


def _cell(score: MetricScore | None, *, with_n: bool) -> str:
    if score is None or score.value is None:
        return NO_VALUE
    if score.measure == SHARE and score.n < PRECISE:
        words = f"{100 * score.value:.0f}"
        ends = (score.interval.low, score.interval.high) if score.interval else ()
        between = joined_ends(*(f"{100 * end:z.0f}" for end in ends)) if ends else ""
    else:
        words, between = format_score(score), format_interval(score)
    return words + (f" ({between})" if between else "") + (f" n {score.n:,}" if with_n else "")


def summary(runs: Sequence[Reported]) -> str:
    """Summarize the main table in one sentence: the counts of each method, then those of the baselines.

    The sentence uses the columns that ``MetricSpec.counts`` names, else the first two. It is empty without scores.
    """
    shown = next(iter(columns_by_table(metric_columns(runs))), [])
    counts = {place: noun for run in runs for place, noun in run.counts.items()}
    named = [column for column in shown if column.place in counts] or shown[:2]
    labeled = [*zip(run_labels(runs), runs, strict=True)]
    methods = [(label, run) for label, run in labeled if not without_model(run.spec)]
    parts: list[str] = []
    for label, run in (methods or labeled)[:MOST_NAMED]:
        nouns = counts if not parts else dict.fromkeys(counts, "")
        if words := [text for column in named if (text := _counted(run, column, nouns))]:
            parts.append(f"{label}: {', '.join(words)}")
    if (more := len(methods or labeled) - MOST_NAMED) > 0 and parts:
        parts.append(f"and {more} more")
    for label, run in labeled if methods else ():
        if without_model(run.spec):
            role = "the upper bound" if run.spec.oracle else "a baseline without a model"
            words = [text for column in named if (text := _counted(run, column, dict.fromkeys(counts, ""), styles=1))]
            parts += [f"{label}, {role}: {', '.join(words)}"] if words else []
    return "; ".join(parts) + "." if parts else ""


def _counted(run: Reported, column: MetricColumn, nouns: Mapping[tuple[str, str], str], styles: int = 2) -> str:
    """Return ``5 of 6 edits succeeded (cot: 4 of 6)``. Empty if the run has no number in that column."""
    found = [(row.style, score) for row in edited_rows([run]) if (score := row.score(column)) is not None][:styles]
    if not found:
        return ""
    counts = column.place in run.counts
    first, *others = [(style, _share(score, counts=counts and score.binary)) for style, score in found]
    noun = nouns.get(column.place, column.heading)
    rest = "".join(f" ({prompt_name(style)}: {words})" for style, words in others)
    return f"{first[1]} {noun}".rstrip() + rest


def _share(score: MetricScore, *, counts: bool) -> str:
    """Return ``5 of 6`` if it ``counts``, else the value and n."""
    if counts:
        return f"{round((score.value or 0.0) * score.n):,} of {score.n:,}"
    unit = "%" if score.measure == SHARE else f" {score.measure}".rstrip()
    return f"{format_score(score)}{unit} (n {score.n:,})"


def warnings(runs: Sequence[Reported]) -> Iterator[str]:
    """Yield a line for each kind: unfinished runs, lost answers, values without a sure verdict, metrics without values,
    unchecked judges, and different forms of the edited fact.
    """
    found: dict[tuple[str, str], list[tuple[str, Counter[str]]]] = {}
    empty: dict[str, dict[str, Counter[str]]] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        if words := unfinished(run):
            yield f"warning: {label}: {words}"
        else:
            for metric, reasons in without_values(run):
                empty.setdefault(metric, {})[label] = reasons
        for loss in losses(run):
            if loss.important and loss.reasons:
                found.setdefault((loss.one, loss.many), []).append((label, loss.reasons))
        unsure = sum(score.skipped_because.get(JUDGE_UNSURE, 0) for score in run.scores if not score.tags)
        if unsure:
            found.setdefault(("value missing", "values missing"), []).append(
                (label, Counter({"the judge is unsure": unsure}))
            )
    for (one, many), parts in found.items():
        of = ", ".join(f"{label} {reasons.total():,}" for label, reasons in parts)
        every = sum((reasons for _label, reasons in parts), Counter[str]())
        yield f"warning: {count_noun(every.total(), one, many)} ({of}): {_main_reason(every)}"
    for metric, whose in empty.items():
        reason = _main_reason(sum(whose.values(), Counter[str]()))
        yield f"warning: {metric} has no values ({', '.join(whose)}): {reason}"
    yield from (f"warning: {words}" for words in score_warnings(runs))
    yield from form_notes(runs)


def _main_reason(reasons: Counter[str]) -> str:
    ((reason, _count),) = reasons.most_common(1)
    return reason if len(reasons) == 1 else f"most often: {reason}"
