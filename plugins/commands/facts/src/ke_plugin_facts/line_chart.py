"""Draw small line charts in one picture, with one legend, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from attrs import frozen

COLORS = (
    "#8b949e", "#2f6feb", "#d1442f", "#1a7f37", "#bf8700", "#8250df", "#0a9396", "#cf4fa3", "#7d4e2d", "#5fa8ff",
    "#ff8c42", "#55b96a", "#a6a832", "#b58cff", "#56c8c8", "#f291c6", "#b07d52", "#4a5a70",
)  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, GAP, ROW, COLUMNS = 240, 180, 44, 26, 60, 20, 4
WIDEST = 3  # charts next to each other; more of them have two rows
STYLE = """
text { font: 12px sans-serif; fill: #1f2328 }
.axis { stroke: #8b949e; stroke-width: 1; fill: none }
.grid { stroke: #8b949e; stroke-width: 0.5; opacity: 0.4 }
polyline { fill: none; stroke-width: 1.8 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""
Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) by the name of the line."""


@frozen(kw_only=True)
class LinePanel:
    """One chart. ``ticks`` of the y axis are also its range; values outside are drawn at its ends."""

    title: str
    lines: Series
    ticks: Sequence[float]
    logarithmic: bool = False

    def height(self, value: float) -> float:
        """Return the distance from the top."""
        low, high = self.ticks[0], self.ticks[-1]
        value = min(max(value, low), high)
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return TOP + HEIGHT * (high - value) / (high - low)


def draw(title: str, panels: Sequence[LinePanel], ticks: Sequence[float], label: str) -> str:
    """Return the charts. They share the logarithmic x axis, which has these ticks, and the legend."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colors = {name: COLORS[place % len(COLORS)] for place, name in enumerate(names)}
    across = len(panels) if len(panels) <= WIDEST else math.ceil(len(panels) / 2)
    parts, down = [], 0
    for place, panel in enumerate(panels):
        right, down = place % across * (WIDTH + GAP), place // across * (TOP + HEIGHT + GAP // 2)
        parts.append(f'<g transform="translate({right} {down})">{_panel(panel, ticks, colors)}</g>')
    width, below = LEFT + across * (WIDTH + GAP), down + TOP + HEIGHT + 38
    parts.append(f'<text x="{width / 2:.0f}" y="{below}" text-anchor="middle">{escape(label)}</text>')
    for place, name in enumerate(names):
        x, y = LEFT + place % COLUMNS * (width - LEFT) // COLUMNS, below + ROW * (1 + place // COLUMNS)
        parts.append(f'<rect x="{x}" y="{y - 8}" width="18" height="4" fill="{colors[name]}"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{escape(name)}</text>')
    height = below + ROW * (1 + math.ceil(len(names) / COLUMNS))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _panel(panel: LinePanel, ticks: Sequence[float], colors: Mapping[str, str]) -> str:
    bottom, last = TOP + HEIGHT, math.log(ticks[-1] / ticks[0])

    def x(value: float) -> float:
        return LEFT + WIDTH * math.log(value / ticks[0]) / last

    parts = [f'<text x="{LEFT}" y="{TOP - 10}">{escape(panel.title)}</text>']
    for tick in panel.ticks:
        y = panel.height(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    parts += [f'<text x="{x(at):.1f}" y="{bottom + 16}" text-anchor="middle">{at:,.0f}</text>' for at in ticks]
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{LEFT + WIDTH}"/>')
    for name, points in panel.lines.items():
        path = " ".join(f"{x(at):.1f},{panel.height(value):.1f}" for at, value in points)
        parts.append(f'<polyline stroke="{colors[name]}" points="{path}"><title>{escape(name)}</title></polyline>')
    return "".join(parts)


def _number(tick: float) -> str:
    return f"{tick:,.0f}" if tick >= 1 else f"{tick:g}"
