"""The charts of a report: panels of scores along one variable. ``svg`` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from attrs import evolve, field, frozen

from ke_core.app import (
    AFTER,
    NO_METRIC,
    UNEDITED,
    MetricColumn,
    Reported,
    ReportRow,
    columns_by_table,
    edited_rows,
    format_interval,
    format_score,
    metric_columns,
    prompt_name,
    run_labels,
    unedited_rows,
)
from ke_core.plugin import SHARE, MetricScore
from ke_plugin_analysis.slices import COST_MEASURES, sorted_tag_values

GRAY = -1
"""The hue of the unedited model."""
TOGETHER = "cases edited together"
FEW = 20
"""A chart with fewer observations in any point is marked."""


@frozen(kw_only=True)
class Series:
    """A color (``hue``, one per run) and a shape (``mark``, one per prompt style) with their label."""

    label: str
    hue: int
    mark: int


@frozen(kw_only=True)
class Point:
    """A number in a chart, fractions in percent, with its interval and n. ``words``: the text of its tooltip."""

    value: float
    n: int
    low: float | None
    high: float | None
    words: str


@frozen(kw_only=True)
class ChartPanel:
    """One chart. ``points``: for each series, one or None for each of ``along``. ``joined``: connect the points of a
    series, because ``along`` is ordered. ``unit``: the unit of the values, or SHARE.
    """

    title: str
    unit: str
    along: tuple[str, ...]
    series: tuple[Series, ...]
    points: tuple[tuple[Point | None, ...], ...]
    joined: bool = False

    @property
    def few(self) -> str:
        """Return the range of n if some point has fewer than FEW observations; otherwise an empty string."""
        seen = [point.n for points in self.points for point in points if point is not None]
        if min(seen) >= FEW:
            return ""
        return f"{min(seen):,}" if min(seen) == max(seen) else f"{min(seen):,} to {max(seen):,}"


@frozen(kw_only=True)
class Gallery:
    """Panels under one heading that share a legend. ``cost``: they show time, memory or calls instead of scores."""

    title: str
    panels: tuple[ChartPanel, ...]
    legend: tuple[Series, ...] = field(init=False)
    cost: bool = False

    @legend.default
    def _legend(self) -> tuple[Series, ...]:
        return tuple(dict.fromkeys(series for panel in self.panels for series in panel.series))


def galleries(runs: Sequence[Reported]) -> list[Gallery]:
    """Return all charts with at least two numbers."""
    shares = [column for column in metric_columns(runs) if _unit(runs, column) == SHARE and column.metric != NO_METRIC]
    found = [Gallery(title="All runs", panels=tuple(_side_by_side(runs, shares)))]
    found.append(Gallery(title=f"By {TOGETHER}", panels=tuple(_by_k(runs, shares))))
    tags = dict.fromkeys(tag for run in runs for score in run.scores for tag in score.tags)
    found += [Gallery(title=f"By {tag}, after editing", panels=tuple(_by_tag(runs, shares, tag))) for tag in tags]
    others = [column for column in metric_columns(runs) if column not in shares and _unit(runs, column) != SHARE]
    spent = [column for column in others if column.metric == NO_METRIC or _unit(runs, column) in COST_MEASURES]
    own = [column for column in others if column not in spent]
    found.append(Gallery(title="Other measures", panels=tuple(_alone(runs, own))))
    found.append(Gallery(title="Cost", panels=tuple(_alone(runs, spent)), cost=True))
    return [gallery for gallery in found if gallery.panels]


def _side_by_side(runs: Sequence[Reported], shares: Sequence[MetricColumn]) -> Iterator[ChartPanel]:
    """One panel per table, with its aspects and, if all runs share it, the unedited model."""
    styles = _styles(runs)
    for group in columns_by_table(shares):
        before = [row for row in unedited_rows(runs, group) if row.label == UNEDITED]
        rows = [
            (Series(label=_joint(UNEDITED, prompt_name(row.style)), hue=GRAY, mark=styles.index(row.style)), row)
            for row in before
        ]
        rows += _edited(runs)
        lines = [(series, tuple(_point(row.score(column)) for column in group)) for series, row in rows]
        title = group[0].table or group[0].metric
        yield from _panel(title, SHARE, [column.heading for column in group], lines)


def _by_k(runs: Sequence[Reported], shares: Sequence[MetricColumn]) -> Iterator[ChartPanel]:
    """Scores against the number of cases that share one edited model. Runs with other settings get their own lines."""
    sizes = {number: run.spec.plan.size or run.tally.cases for number, run in enumerate(runs)}
    if len(set(sizes.values())) < 2:
        return
    alike: dict[tuple[str, ...], dict[int, Reported]] = {}
    for (at, size), name in zip(sizes.items(), _without_size(runs), strict=True):
        free = (alike.setdefault((name, f"run {n + 1}" if n else ""), {}) for n in count())
        next(line for line in free if size not in line)[size] = runs[at]
    along = sorted(set(sizes.values()))
    styles = _styles(runs)
    for column in shares:
        lines = [
            (
                Series(label=_joint(*key, prompt_name(style)), hue=hue, mark=styles.index(style)),
                tuple(_point(by_size[k].score(column, AFTER, style)) if k in by_size else None for k in along),
            )
            for hue, (key, by_size) in enumerate(alike.items())
            for style in styles
        ]
        yield from _panel(column.heading, SHARE, [f"{k:,}" for k in along], lines, joined=True)


def _by_tag(runs: Sequence[Reported], shares: Sequence[MetricColumn], tag: str) -> Iterator[ChartPanel]:
    rows = _edited(runs)
    for column in shares:
        values = {score.tags[tag] for run in runs for score in run.scores if tag in score.tags and column.holds(score)}
        along = sorted_tag_values(values)
        lines = [(series, tuple(_point(row.score(column, (tag, value))) for value in along)) for series, row in rows]
        if len(along) > 1:
            joined = all(value.isdigit() for value in along)
            yield from _panel(column.heading, SHARE, along, lines, joined=joined)


def _alone(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> Iterator[ChartPanel]:
    """One panel per column: these columns have different units."""
    rows = _edited(runs)
    for column in shown:
        lines = [(series, (_point(row.score(column)),)) for series, row in rows]
        yield from _panel(column.heading, _unit(runs, column), [""], lines)


def _panel(
    title: str,
    unit: str,
    along: Iterable[str],
    lines: Sequence[tuple[Series, tuple[Point | None, ...]]],
    *,
    joined: bool = False,
) -> Iterator[ChartPanel]:
    """Yield a panel of the lines that have numbers, if there are at least two numbers."""
    seen = [(series, points) for series, points in lines if any(points)]
    if sum(point is not None for _series, points in seen for point in points) > 1:
        yield ChartPanel(
            title=title,
            unit=unit,
            along=tuple(along),
            series=tuple(series for series, _points in seen),
            points=tuple(points for _series, points in seen),
            joined=joined,
        )


def _point(score: MetricScore | None) -> Point | None:
    if score is None or score.value is None or not score.n:
        return None
    scale = 100.0 if score.measure == SHARE else 1.0
    ends = score.interval
    unit = "%" if score.measure == SHARE else f" {score.measure}".rstrip()
    words = f"{format_score(score)}{unit}" + (f" ({format_interval(score)})" if ends else "") + f", n {score.n:,}"
    low, high = (ends.low * scale, ends.high * scale) if ends else (None, None)
    return Point(value=score.value * scale, n=score.n, low=low, high=high, words=words)


def _edited(runs: Sequence[Reported]) -> list[tuple[Series, ReportRow]]:
    hues, styles = run_labels(runs), _styles(runs)
    return [
        (
            Series(
                label=_joint(row.label, prompt_name(row.style)), hue=hues.index(row.label), mark=styles.index(row.style)
            ),
            row,
        )
        for row in edited_rows(runs)
    ]


def _styles(runs: Sequence[Reported]) -> list[str]:
    """Return the styles of all runs in both phases."""
    return list(dict.fromkeys(style for run in runs for style in (*run.styles("before"), *run.styles(AFTER))))


def _unit(runs: Sequence[Reported], column: MetricColumn) -> str:
    return next((score.measure for run in runs for score in run.scores if column.holds(score)), SHARE)


def _without_size(runs: Sequence[Reported]) -> list[str]:
    """Return names that distinguish the runs, without the number of cases that share a model."""
    return run_labels(
        [evolve(run, spec=evolve(run.spec, plan=evolve(run.spec.plan, size=1))) for run in runs], ids=False
    )


def _joint(*words: str) -> str:
    return ", ".join(word for word in words if word)
