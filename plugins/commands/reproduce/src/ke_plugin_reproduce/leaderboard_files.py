"""Write a leaderboard as CSV or as one HTML page without external files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from ke_core.app import one_line, sanitize
from ke_core.plugin import to_json
from ke_plugin_reproduce.leaderboard import REASON, Leaderboard, LeaderboardTable, model_name, table_title
from ke_plugin_reproduce.leaderboard_page import HEADINGS, notes, place_cells

COLUMNS = (
    "dataset", "model", "metric", "aspect", "less_is_better", "same_cases", "rank_best", "rank_worst", "run", "path",
    "style", "value", "measure", "n", "low", "high", "skipped",
)  # fmt: skip
FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20|%")
"""A spreadsheet may read a text that starts with one of these as a formula."""
STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1d2126; --soft: #5b6470; --line: #d8dce1; --warn: #7a4f00; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --ink: #e4e7eb; --soft: #a0a9b5; --line: #363d46; --warn: #efc56b; }
}
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid var(--soft); font-size: .85rem; }
.number { text-align: right; }
@media (max-width: 40rem) { th, td { padding: .35rem .4rem; white-space: normal; } }
.hint { color: var(--soft); } .warning { color: var(--warn); }
"""


def leaderboard_csv(found: Leaderboard) -> str:
    """Return one row per place. ``value``, ``low`` and ``high`` are in the unit ``measure``."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([_inert(cell) for cell in row] for table in found.tables for row in _rows(table))
    return stream.getvalue()


def leaderboard_html(found: Leaderboard, title: str) -> str:
    """Return the page. All texts are escaped."""
    body = [f"<h1>{_text(title)}</h1>", *(part for table in found.tables for part in _table(table))]
    body += [f'<p class="{_text(kind)}">{_text(words)}</p>' for words, kind in notes(found)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _table(table: LeaderboardTable) -> Iterator[str]:
    """Yield a heading and a table."""
    heads = (*HEADINGS[:3], table.column.heading, *HEADINGS[3:])
    yield f"<h2>{_text(table_title(table))}</h2>"
    yield '<div class="scroll"><table>'
    yield "<thead>" + _row("th", heads) + "</thead>"
    yield "<tbody>"
    for place in table.places:
        yield _row("td", place_cells(place))
    yield "</tbody></table></div>"


def _row(tag: str, cells: Sequence[str]) -> str:
    kinds = ('class="number"' if at not in (1, 2) else "" for at in range(len(cells)))
    return (
        "<tr>"
        + "".join(f"<{tag} {kind}>{_text(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        + "</tr>"
    )


def _rows(table: LeaderboardTable) -> Iterator[Sequence[object]]:
    about = (
        table.dataset.component.name,
        model_name(table),
        table.column.metric,
        table.column.aspect,
        table.less,
        table.alike,
    )
    for place in table.places:
        score, ends = place.score, place.score.interval
        yield (
            *about, place.rank.best, place.rank.worst, place.name, place.path, place.style, score.value, score.measure,
            score.n, ends.low if ends else "", ends.high if ends else "", score.skipped,
        )  # fmt: skip


def _inert(cell: object) -> object:
    """Return a text in one line that no spreadsheet reads as a formula; other values unchanged."""
    if not isinstance(cell, str):
        return cell
    text = one_line(cell, 10 * REASON)
    return f"'{text}" if text.lstrip()[:1] in FORMULA else text


def _text(words: str) -> str:
    return escape(sanitize(words))


def leaderboard_json(found: Leaderboard) -> dict[str, Any]:
    """Return everything that is printed, as JSON values."""
    tables = [
        {
            "dataset": table.dataset.component.name,
            "model": table.model.id,
            "settings": table.settings,
            "by": f"{table.column.metric}.{table.column.aspect}",
            "less_is_better": table.less,
            "same_cases": table.alike,
            "places": [
                {
                    "rank": [place.rank.best, place.rank.worst],
                    "name": place.name,
                    "style": place.style,
                    "run": place.path,
                    **{key: to_json(place.score)[key] for key in ("value", "n", "skipped", "interval", "measure")},
                }
                for place in table.places
            ],
        }
        for table in found.tables
    ]
    return {
        "tables": tables,
        "warnings": list(found.warnings),
        "not_ranked": dict(found.unranked),
        "not_finished": list(found.open),
        "failed": dict(found.failed),
        "damaged": dict(found.damaged),
    }
