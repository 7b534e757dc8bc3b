"""Print a leaderboard in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from ke_core.app import WARNING, format_interval, format_score, literal, one_line, plain_table, prompt_name, titled
from ke_plugin_reproduce.leaderboard import REASON, Leaderboard, LeaderboardEntry, LeaderboardTable, table_title

HEADINGS = ("rank", "run", "prompt", "95% interval", "n")
"""The headings. The column that runs are ranked by comes after the third."""
OWN_EDITS_NOTE = "given own edits: the editor gets each question's own edits, which a deployed editor does not know."
SKIPPED_NOTE = "skipped: observations without a value; n does not include them. ke report RUN --json lists the reasons."
COLORS = {"hint": "", WARNING: "yellow", "error": "red"}


def leaderboard_page(found: Leaderboard) -> Group:
    """Return the tables and notes for the terminal."""
    parts: list[RenderableType] = [_drawn(table) for table in found.tables]
    parts += [literal(words, COLORS[kind]) for words, kind in notes(found)]
    return Group(*parts)


def notes(found: Leaderboard) -> Iterator[tuple[str, str]]:
    """Yield the lines below the tables, each with its kind: hint, warning or error."""
    if any(place.rank.tied for table in found.tables for place in table.places):
        yield ("A rank such as 2-4 means that 95% intervals overlap. ke compare pairs the same questions.", "hint")
    places = [place for table in found.tables for place in table.places]
    if any(place.own_edits for place in places):
        yield OWN_EDITS_NOTE, "hint"
    if any(place.score.skipped for place in places):
        yield SKIPPED_NOTE, "hint"
    if not all(table.alike for table in found.tables):
        yield (
            "Different cases: --limit, --eval-limit, --num-edited or seeds differ between the runs of a table.",
            WARNING,
        )
    yield from ((f"{WARNING}: {words}", WARNING) for words in found.warnings)
    yield from ((f"not ranked: {name}: {one_line(why, REASON)}", WARNING) for name, why in found.unranked.items())
    yield from ((f"not finished: {name}", WARNING) for name in found.open)
    yield from ((f"failed: {name}: {one_line(why, REASON)}", "error") for name, why in found.failed.items())
    yield from ((f"damaged: {name}: {one_line(why, REASON)}", "error") for name, why in found.damaged.items())


def _drawn(found: LeaderboardTable) -> Group:
    shown = plain_table(*HEADINGS[:3], found.column.heading, *HEADINGS[3:])
    for at in (0, 3, 4, 5):
        shown.columns[at].justify = "right"
    for place in found.places:
        shown.add_row(*map(literal, place_cells(place)))
    return titled(table_title(found), shown)


def place_cells(place: LeaderboardEntry) -> tuple[str, ...]:
    """Return the texts of a row, in the order of the headings."""
    score = place.score
    return (
        rank_words(place),
        place.name,
        prompt_name(place.style),
        format_score(score),
        format_interval(score) or "none",
        f"{score.n:,}" + (f" ({score.skipped:,} skipped)" if score.skipped else ""),
    )


def rank_words(place: LeaderboardEntry) -> str:
    """Return a rank as ``2`` or ``2-4``."""
    return str(place.rank.best) if not place.rank.tied else f"{place.rank.best}-{place.rank.worst}"
