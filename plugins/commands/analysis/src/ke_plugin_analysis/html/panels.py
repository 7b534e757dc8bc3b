"""Which pictures a report has: small panels, each of scores along one thing. ``svg`` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from attrs import evolve, field, frozen

from ke_core.app import (
    AFTER,
    COST_MEASURES,
    NO_METRIC,
    UNEDITED,
    MetricColumn,
    Reported,
    ReportRow,
    RunSpec,
    columns_by_table,
    edited_rows,
    format_interval,
    format_score,
    metric_columns,
    run_labels,
    run_names,
    shown_unit,
    sorted_tag_values,
    unedited_rows,
    without_model,
)
from ke_core.plugin import SHARE, MetricScore

GRAY = -1
"""The hue of the unedited model: gray."""
TOGETHER = "cases edited together"


@frozen(kw_only=True)
class Series:
    """What one color and one shape stand for. ``hue`` counts runs, ``mark`` styles."""

    label: str
    hue: int
    mark: int


@frozen(kw_only=True)
class Point:
    """A number as it is drawn, shares in per cent, with the ends of its interval; ``words`` says it all."""

    value: float
    low: float | None
    high: float | None
    words: str


@frozen(kw_only=True)
class Panel:
    """One picture. ``points``: for each series, one (or none) for each of ``along``. ``joined``: in order, so that
    lines may connect them. ``unit``: ``%``, or what the values are measured in.
    """

    title: str
    unit: str
    along: tuple[str, ...]
    series: tuple[Series, ...]
    points: tuple[tuple[Point | None, ...], ...]
    joined: bool = False


@frozen(kw_only=True)
class Gallery:
    """Panels under one heading, which share a legend. ``cost``: of what was spent, not of what was achieved."""

    title: str
    panels: tuple[Panel, ...]
    legend: tuple[Series, ...] = field(init=False)
    cost: bool = False

    @legend.default
    def _legend(self) -> tuple[Series, ...]:
        return tuple(dict.fromkeys(series for panel in self.panels for series in panel.series))


def galleries(runs: Sequence[Reported]) -> list[Gallery]:
    """All that there is something to see of: two numbers at least to a panel."""
    shares = [column for column in metric_columns(runs) if _unit(runs, column) == SHARE and column.metric != NO_METRIC]
    found = [Gallery(title="Side by side", panels=tuple(_side_by_side(runs, shares)))]
    found.append(Gallery(title=f"By {TOGETHER}", panels=tuple(_by_k(runs, shares))))
    tags = dict.fromkeys(tag for run in runs for score in run.scores for tag in score.tags)
    found += [Gallery(title=f"By {tag}, after editing", panels=tuple(_by_tag(runs, shares, tag))) for tag in tags]
    others = [column for column in metric_columns(runs) if column not in shares and _unit(runs, column) != SHARE]
    spent = [column for column in others if column.metric == NO_METRIC or _unit(runs, column) in COST_MEASURES]
    own = [column for column in others if column not in spent]
    found.append(Gallery(title="In measures of their own", panels=tuple(_alone(runs, own))))
    found.append(Gallery(title="What it took", panels=tuple(_alone(runs, spent)), cost=True))
    return [gallery for gallery in found if gallery.panels]


def _side_by_side(runs: Sequence[Reported], shares: Sequence[MetricColumn]) -> Iterator[Panel]:
    """The aspects (criteria) of each table under one another, with the unedited model if there is one for all."""
    styles = _styles(runs)
    for group in columns_by_table(shares):
        before = [row for row in unedited_rows(runs, group) if row.label == UNEDITED]
        rows = [
            (Series(label=_joint(UNEDITED, row.style), hue=GRAY, mark=styles.index(row.style)), row) for row in before
        ]
        rows += _edited(runs)
        lines = [(series, tuple(_point(row.score(column)) for column in group)) for series, row in rows]
        title = group[0].table or group[0].metric
        yield from _panel(title, SHARE, [column.heading for column in group], lines)


def _by_k(runs: Sequence[Reported], shares: Sequence[MetricColumn]) -> Iterator[Panel]:
    """Scores against how many cases share one edited model. What differs in anything else is on a line of its own."""
    sizes = {number: run.spec.plan.size or run.tally.cases for number, run in enumerate(runs)}
    if len(set(sizes.values())) < 2:
        return
    alike: dict[tuple[str, ...], dict[int, Reported]] = {}
    for (at, size), name in zip(sizes.items(), _without_size(runs), strict=True):
        free = (alike.setdefault((name, *_apart(runs[at].spec), f"run {n + 1}" if n else ""), {}) for n in count())
        next(line for line in free if size not in line)[size] = runs[at]
    along = sorted(set(sizes.values()))
    styles = _styles(runs)
    for column in shares:
        lines = [
            (
                Series(label=_joint(*_differing(alike, key), style), hue=hue, mark=styles.index(style)),
                tuple(_point(by_size[k].score(column, AFTER, style)) if k in by_size else None for k in along),
            )
            for hue, (key, by_size) in enumerate(alike.items())
            for style in styles
        ]
        yield from _panel(column.heading, SHARE, [f"{k:,}" for k in along], lines, joined=True)


def _by_tag(runs: Sequence[Reported], shares: Sequence[MetricColumn], tag: str) -> Iterator[Panel]:
    rows = _edited(runs)
    for column in shares:
        values = {score.tags[tag] for run in runs for score in run.scores if tag in score.tags and column.holds(score)}
        along = sorted_tag_values(values)
        lines = [(series, tuple(_point(row.score(column, (tag, value))) for value in along)) for series, row in rows]
        if len(along) > 1:
            joined = all(value.isdigit() for value in along)
            yield from _panel(column.heading, SHARE, along, lines, joined=joined)


def _alone(runs: Sequence[Reported], shown: Sequence[MetricColumn]) -> Iterator[Panel]:
    """A panel for each column, of each run and style: no two of these share an axis."""
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
) -> Iterator[Panel]:
    """A panel of the lines that have a number, if it has two numbers at least."""
    seen = [(series, points) for series, points in lines if any(points)]
    if sum(point is not None for _series, points in seen for point in points) > 1:
        yield Panel(
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
    words = (
        f"{format_score(score)} {shown_unit(score.measure)}".strip()
        + (f" ({format_interval(score)})" if ends else "")
        + f", n {score.n:,}"
    )
    low, high = (ends.low * scale, ends.high * scale) if ends else (None, None)
    return Point(value=score.value * scale, low=low, high=high, words=words)


def _edited(runs: Sequence[Reported]) -> list[tuple[Series, ReportRow]]:
    hues, styles = run_labels(runs), _styles(runs)
    return [
        (Series(label=_joint(row.label, row.style), hue=hues.index(row.label), mark=styles.index(row.style)), row)
        for row in edited_rows(runs)
    ]


def _styles(runs: Sequence[Reported]) -> list[str]:
    """Every style of any run, in both phases."""
    return list(dict.fromkeys(style for run in runs for style in (*run.styles("before"), *run.styles(AFTER))))


def _unit(runs: Sequence[Reported], column: MetricColumn) -> str:
    return next((score.measure for run in runs for score in run.scores if column.holds(score)), SHARE)


def _without_size(runs: Sequence[Reported]) -> list[str]:
    """What tells each run from the others, how many cases share a model aside."""
    return run_names([evolve(run, spec=evolve(run.spec, plan=evolve(run.spec.plan, size=1))) for run in runs])


def _apart(spec: RunSpec) -> tuple[str, ...]:
    """What must agree, beside its name, for two runs to lie on one line."""
    return ("" if without_model(spec) else spec.model.id, spec.dataset.component.name)


def _differing(alike: Mapping[tuple[str, ...], object], key: tuple[str, ...]) -> list[str]:
    """The words of ``key`` that tell it from the others; the editor always."""
    return [key[0], *(word for at, word in enumerate(key) if at and len({other[at] for other in alike}) > 1)]


def _joint(*words: str) -> str:
    return ", ".join(word for word in words if word)
