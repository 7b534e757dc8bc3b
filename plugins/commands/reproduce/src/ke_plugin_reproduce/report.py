"""Print a reproduced table: measured and published numbers, and the differences in settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from string import ascii_lowercase
from typing import Any

from attrs import frozen
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ke_core.app import escaped, literal, plain_table, table_row, titled
from ke_core.plugin import to_json
from ke_plugin_reproduce.filled import CellPart, FilledTable, Status

WIDTH = 100
SIGNS = {Status.MATCHES: "matches", Status.DIFFERS: "differs", Status.NOT_RUN: "not runnable"}
STYLES = {
    Status.MATCHES: "green",
    Status.DIFFERS: "yellow",
    Status.NOT_RUN: "dim",
    Status.ABSENT: "dim",
    Status.UNPRINTED: "",
}
GAP = 2


class Footnotes:
    """The notes of a table. Each is printed once, for the whole table, a row, a column or a cell.

    Notes for the whole table have no letter; the others have letters in the order of first use. A cell that was not run
    has only its reason, and does not count when notes are shared.
    """

    def __init__(self, filled: FilledTable) -> None:
        cell_notes = [[(_notes(cell), _ran(cell)) for cell in row] for row in filled.cells]
        common = _shared([pair for row in cell_notes for pair in row])
        self.everywhere = list(dict.fromkeys((*filled.notes, *common)))
        by_column = [_without(_shared(list(column)), common) for column in zip(*cell_notes, strict=True)]
        self._letters: dict[str, str] = {}
        self.columns = [self._mark(notes) for notes in by_column]
        self.rows: list[str] = []
        self.cells: list[list[str]] = []
        for row in cell_notes:
            by_row = _without(_shared(row), common)
            self.rows.append(self._mark(by_row))
            above = [{*self.everywhere, *by_row, *notes} for notes in by_column]
            self.cells.append(
                [self._mark(_without(notes, known)) for (notes, _), known in zip(row, above, strict=True)]
            )

    def lines(self) -> Iterator[str]:
        """The lines below the table."""
        yield from self.everywhere
        yield from (f"{letter}: {note}" for note, letter in self._letters.items())

    def _mark(self, notes: Sequence[str]) -> str:
        """`` [a, b]``, or nothing."""
        for note in notes:
            self._letters.setdefault(note, _letter(len(self._letters)))
        return f" [{', '.join(self._letters[note] for note in notes)}]" if notes else ""


@frozen(kw_only=True)
class RenderedTable:
    """The texts of a table: headings, and the labels and cells of each row."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[list[str], ...]], ...]
    foot: tuple[str, ...]

    @classmethod
    def of(cls, filled: FilledTable) -> RenderedTable:
        """Return the texts of a table."""
        table, notes = filled.table, Footnotes(filled)
        summary = ", ".join(f"{number} {words}" for words, number in filled.counts().items() if number)
        return cls(
            title=f"{table.paper}: {table.title}",
            headings=tuple(column.heading + mark for column, mark in zip(table.columns, notes.columns, strict=True)),
            rows=tuple(
                (
                    (*row.labels[:-1], row.labels[-1] + mark),
                    tuple(_lines(cell, letters) for cell, letters in zip(cells, marks, strict=True)),
                )
                for row, mark, cells, marks in zip(table.rows, notes.rows, filled.cells, notes.cells, strict=True)
            ),
            foot=(f"numbers: {summary}", *notes.lines()),
        )


def render_table(filled: FilledTable) -> Group:
    """Return the table for the terminal. A wide table is split, and each part has the row labels."""
    sheet = RenderedTable.of(filled)
    first, *rest = [_piece(filled, sheet, columns) for columns in _pieces(filled.table.labels, sheet)]
    return Group(titled(sheet.title, first), *rest, *(literal(f"  {line}", "dim") for line in sheet.foot))


def markdown(filled: FilledTable) -> str:
    """Return the table as GitHub Markdown."""
    sheet, labels = RenderedTable.of(filled), filled.table.labels
    rows = [table_row([*map(escaped, labels), *map(escaped, sheet.headings)])]
    rows.append("|" + " --- |" * len(labels) + " ---: |" * len(sheet.headings))
    rows += [
        table_row([*map(escaped, names), *("<br>".join(map(escaped, lines)) for lines in cells)])
        for names, cells in sheet.rows
    ]
    return "\n".join([f"### {escaped(sheet.title)}", "", *rows, "", *(f"- {escaped(line)}" for line in sheet.foot), ""])


def table_json(filled: FilledTable) -> dict[str, Any]:
    """Return every number with its details as JSON values."""
    table = filled.table
    return {
        "name": filled.name,
        "paper": table.paper,
        "title": table.title,
        "notes": list(filled.notes),
        "rows": [
            {
                "labels": list(row.labels),
                "cells": [
                    {"column": column.heading, "parts": [_json(part) for part in cell]}
                    for column, cell in zip(table.columns, cells, strict=True)
                ],
            }
            for row, cells in zip(table.rows, filled.cells, strict=True)
        ],
    }


def _json(part: CellPart) -> dict[str, Any]:
    raw: dict[str, Any] = to_json(part)
    return {**raw, "difference": part.difference}


def _piece(filled: FilledTable, sheet: RenderedTable, columns: Sequence[int]) -> Table:
    piece = plain_table(*filled.table.labels)
    for index in columns:
        piece.add_column(literal(sheet.headings[index], "bold"), justify="right", no_wrap=True)
    for (names, lines), cells in zip(sheet.rows, filled.cells, strict=True):
        piece.add_row(*map(literal, names), *(_styled(lines[index], cells[index]) for index in columns))
        piece.add_section()
    return piece


def _pieces(labels: Sequence[str], sheet: RenderedTable) -> list[list[int]]:
    """Return the columns of each part, as many as fit next to the labels."""
    names = zip(labels, *(names for names, _cells in sheet.rows), strict=True)
    room = WIDTH - sum(GAP + max(map(len, column)) for column in names)
    pieces: list[list[int]] = [[]]
    left = room
    for index, heading in enumerate(sheet.headings):
        width = GAP + max(len(heading), *(len(line) for _names, cells in sheet.rows for line in cells[index]))
        if pieces[-1] and width > left:
            pieces.append([])
            left = room
        pieces[-1].append(index)
        left -= width
    return pieces


def _styled(lines: Sequence[str], cell: Sequence[CellPart]) -> Text:
    worst = next((status for status in (Status.DIFFERS, Status.MATCHES) if _any(cell, status)), cell[0].status)
    return literal("\n".join(lines), STYLES[worst])


def _any(cell: Sequence[CellPart], status: Status) -> bool:
    return any(part.status is status for part in cell)


def _lines(cell: Sequence[CellPart], marks: str) -> list[str]:
    """Return measured number, interval, n, published number and status."""
    printed = _joined([_printed(part) for part in cell])
    lines = [f"paper {printed}"] if printed != "-" else []
    if all(part.status is Status.ABSENT for part in cell):
        return ["-"]
    if not _ran(cell):
        return [f"{SIGNS[Status.NOT_RUN]}{marks}", *lines]
    first = [_joined([_number(part.value, part) for part in cell]) + marks]
    if len(cell) == 1 and cell[0].low is not None and cell[0].high is not None:
        first.append(f"{_number(cell[0].low, cell[0])} to {_number(cell[0].high, cell[0])}")
    return [*first, "n " + _joined([f"{part.n:,}" for part in cell]), *lines, *_verdict(cell)]


def _verdict(cell: Sequence[CellPart]) -> list[str]:
    if len(cell) == 1:
        part = cell[0]
        away = f"{part.difference:+z.{max(1, part.decimals)}f} " if part.difference is not None else ""
        return [f"{away}{SIGNS[part.status]}"] if part.status in SIGNS else []
    words = [SIGNS.get(part.status, "-") for part in cell]
    return [words[0] if len(set(words)) == 1 else _joined(words)] if set(words) != {"-"} else []


def _joined(texts: Sequence[str]) -> str:
    """Format several numbers as ``22.6 (100.0, 22.5)``, as in the papers."""
    first, *rest = texts
    return f"{first} ({', '.join(rest)})" if rest else first


def _number(value: float | None, part: CellPart) -> str:
    """Return a measured number with the decimals of the paper, at least one unless it is large."""
    if value is None:
        return "-"
    decimals = part.decimals or int(abs(value) < 1000)
    return f"{value:,.{decimals}f}"


def _printed(part: CellPart) -> str:
    return f"{part.printed:,.{part.decimals}f}" if isinstance(part.printed, float) else part.printed or "-"


def _notes(cell: Sequence[CellPart]) -> list[str]:
    return list(dict.fromkeys(note for part in cell for note in ((part.why,) if part.why else part.notes)))


def _ran(cell: Sequence[CellPart]) -> bool:
    return any(part.status not in (Status.NOT_RUN, Status.ABSENT) for part in cell)


def _shared(cells: Sequence[tuple[list[str], bool]]) -> list[str]:
    """Return the notes that all run cells have in common, or all cells if none was run. Empty for a single cell."""
    notes = [each for each, ran in cells if ran] or [each for each, _ran in cells]
    return [note for note in notes[0] if all(note in other for other in notes)] if len(notes) > 1 else []


def _without(notes: Sequence[str], known: Collection[str]) -> list[str]:
    return [note for note in notes if note not in known]


def _letter(number: int) -> str:
    """Return the letters a to z, then aa, ab ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]
