"""Draw charts as inline SVG without a library. Colors are CSS classes, so that dark mode works.

A panel is 340 units wide: a phone shows it unscaled, with readable text.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from attrs import frozen

from ke_core.plugin import SHARE
from ke_plugin_analysis.html.panels import ChartPanel, Point, Series

WIDTH, HUES, MARKS = 340, 8, 4
LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 42, 12, 10, 26, 220  # of a vertical panel
ROW, LABEL, AXIS, VALUE = (
    15,
    22,
    24,
    64,
)  # of a horizontal panel: heights of a row, a label and the axis; width of the numbers
SHARES = (4.0, 8.0, 20.0, 40.0, 60.0, 80.0, 100.0)
"""Ends of a percentage axis. A shorter axis is used if all values are low."""


@frozen(kw_only=True)
class Scale:
    """Maps values to coordinates: zero to ``start``, ``top`` to ``end``."""

    top: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of ``value``, limited to the scale."""
        return self.start + (self.end - self.start) * min(max(value / self.top, 0.0), 1.0)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Five round values from zero to the top."""
        return tuple(self.top * part / 4 for part in range(5))


def draw(panel: ChartPanel) -> str:
    """Return the panel as an ``svg`` element with escaped texts."""
    horizontal = not panel.joined
    height = _rows_height(panel) if horizontal else HEIGHT
    inner = "".join(_rows(panel, height) if horizontal else _lines(panel))
    name = escape(f"{panel.title}; the tables hold the numbers")
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}">{inner}</svg>'


def key(series: Series) -> str:
    """Return the mark of a series for a legend."""
    return f'<svg viewBox="0 0 14 14" class="key" aria-hidden="true">{_marked(series, 7, 7)}</svg>'


def _lines(panel: ChartPanel) -> Iterator[str]:
    """Draw values upwards along an ordered variable, connected by lines."""
    scale = Scale(top=_top(panel), start=HEIGHT - BOTTOM, end=TOP)
    for tick in scale.ticks:
        yield _line(LEFT, scale(tick), WIDTH - RIGHT, scale(tick), "grid")
        yield _text(LEFT - 6, scale(tick) + 4, _tick(tick, panel), "end")
    step = (WIDTH - LEFT - RIGHT) / len(panel.along)
    places = [LEFT + step * (at + 0.5) for at in range(len(panel.along))]
    for place, words in zip(places, panel.along, strict=True):
        yield _text(place, HEIGHT - 8, words, "middle")
    spread = min(7.0, step * 0.6 / len(panel.series))
    for at, (series, points) in enumerate(zip(panel.series, panel.points, strict=True)):
        off = spread * (at - (len(panel.series) - 1) / 2)
        seen = [(place + off, point) for place, point in zip(places, points, strict=True) if point is not None]
        way = " ".join(f"{x:.1f},{scale(point.value):.1f}" for x, point in seen)
        yield f'<g class="{_hue(series)}"><polyline class="way" points="{way}"/>'
        for x, point in seen:
            if point.low is not None and point.high is not None:
                yield _line(x, scale(point.low), x, scale(point.high), "whisker")
            yield _with_tooltip(_marked(series, x, scale(point.value)), series, point)
        yield "</g>"


def _rows(panel: ChartPanel, height: float) -> Iterator[str]:
    """Draw values to the right, one row per number, with the number at the end of the row."""
    scale = Scale(top=_top(panel), start=14, end=WIDTH - VALUE)
    for tick in scale.ticks:
        yield _line(scale(tick), 4, scale(tick), height - AXIS, "grid")
        yield _text(scale(tick), height - 8, _tick(tick, panel), "middle")
    y = 0.0
    for at, words in enumerate(panel.along):
        y += LABEL if words else ROW / 2
        if words:
            yield _text(2, y - 4, words, "start", "label")
        for series, points in zip(panel.series, panel.points, strict=True):
            point = points[at]
            if point is None:
                continue
            middle = y + ROW / 2
            yield f'<g class="{_hue(series)}">'
            if point.low is not None and point.high is not None:
                yield _line(scale(point.low), middle, scale(point.high), middle, "whisker")
            yield _with_tooltip(_marked(series, scale(point.value), middle), series, point) + "</g>"
            yield _text(WIDTH - VALUE + 14, middle + 4, _value(point, panel), "start")
            y += ROW


def _rows_height(panel: ChartPanel) -> float:
    numbers = sum(point is not None for points in panel.points for point in points)
    return numbers * ROW + sum(LABEL if words else ROW / 2 for words in panel.along) + 6 + AXIS


def _top(panel: ChartPanel) -> float:
    """Return the end of the axis, which is above every interval."""
    most = max(max(point.value, point.high or 0.0) for points in panel.points for point in points if point is not None)
    if panel.unit == SHARE:
        return next((end for end in SHARES if most <= end), 100.0)
    power = 10.0 ** (len(f"{most:.0f}") - 1) if most >= 1 else 0.001
    while power * 10 < most:
        power *= 10
    return next((part * power for part in (1, 2, 4, 8, 10) if most <= part * power), most) or 1.0


def _tick(value: float, panel: ChartPanel) -> str:
    return f"{value:g}{'%' if panel.unit == SHARE else ''}" if value < 10_000 else f"{value / 1000:,.0f}k"


def _value(point: Point, panel: ChartPanel) -> str:
    return f"{point.value:.1f}" if panel.unit == SHARE else f"{point.value:,.4g}"


def _hue(series: Series) -> str:
    return f"hue{series.hue % HUES}" if series.hue >= 0 else "hue-unedited"


def _with_tooltip(mark: str, series: Series, point: Point) -> str:
    """Return a mark with its numbers as a tooltip."""
    return f"<g><title>{escape(f'{series.label}: {point.words}')}</title>{mark}</g>"


def _marked(series: Series, x: float, y: float) -> str:
    """Return a disc, square, diamond or triangle, so that series differ without color."""
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.2"/>',
        f'<rect x="{x - 3.8:.1f}" y="{y - 3.8:.1f}" width="7.6" height="7.6"/>',
        f'<path d="M{x:.1f} {y - 5.4:.1f}l5.4 5.4l-5.4 5.4l-5.4 -5.4z"/>',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>',
    )
    return f'<g class="mark {_hue(series)}">{shapes[series.mark % MARKS]}</g>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
