"""A filled table of a paper as people read it: each number, what was printed there, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

from rich.console import Group
from rich.text import Text

from ke_core.data.codec import to_json
from ke_core.data.reproductions import Printed
from ke_core.report.markdown import escaped
from ke_core.report.text import literal, plain_table, titled
from ke_core.reproduce.filled import FilledTable, Part, Status

WIDTH = 100
SIGNS = {Status.MATCHES: "matches", Status.DIFFERS: "differs", Status.NOT_RUN: "not runnable"}
STYLES = {Status.MATCHES: "green", Status.DIFFERS: "yellow", Status.NOT_RUN: "dim", Status.UNPRINTED: ""}
GAP = 2


class Footnotes:
    """The notes of a table: those of every cell apart, the others with a letter each, in the order of first use."""

    def __init__(self, filled: FilledTable) -> None:
        parts = [part for row in filled.cells for cell in row for part in cell]
        said = [dict.fromkeys(_said(part)) for part in parts]
        self.everywhere = list(dict.fromkeys(filled.notes))
        self.everywhere += [note for note in said[0] if all(note in notes for notes in said)]
        several = dict.fromkeys(note for notes in said for note in notes if note not in self.everywhere)
        self.letters = {note: _letter(number) for number, note in enumerate(several)}

    def of(self, cell: Sequence[Part]) -> str:
        """The letters of a cell, such as ``a, b``."""
        found = dict.fromkeys(note for part in cell for note in _said(part) if note in self.letters)
        return ", ".join(self.letters[note] for note in found)

    def lines(self) -> Iterator[str]:
        """What stands under the table."""
        yield from self.everywhere
        yield from (f"{letter}: {note}" for note, letter in self.letters.items())


def drawn(filled: FilledTable) -> Group:
    """For a terminal of 100 columns; a wider table comes in pieces, each with the row labels."""
    notes = Footnotes(filled)
    texts = [[_lines(cell, notes) for cell in row] for row in filled.cells]
    table = filled.table
    pieces = [_piece(filled, texts, columns) for columns in _pieces(filled, texts)]
    first, *rest = pieces
    heading = f"{table.paper}: {table.title}"
    summary = ", ".join(f"{number} {words}" for words, number in filled.counts().items() if number)
    foot = [literal(f"  {line}", "dim") for line in notes.lines()]
    return Group(titled(heading, first), *rest, literal(f"  numbers: {summary}"), *foot)


def markdown(filled: FilledTable) -> str:
    """As GitHub shows it."""
    notes = Footnotes(filled)
    table = filled.table
    rows = [[*table.labels, *(column.heading for column in table.columns)]]
    lines = [f"### {escaped(f'{table.paper}: {table.title}')}", "", *_md(rows)]
    lines.append("|" + " --- |" * len(table.labels) + " ---: |" * len(table.columns))
    for row, cells in zip(table.rows, filled.cells, strict=True):
        texts = ("<br>".join(map(escaped, _lines(cell, notes))) for cell in cells)
        lines.append(f"| {' | '.join([*map(escaped, row.labels), *texts])} |")
    return "\n".join([*lines, "", *(f"- {escaped(note)}" for note in notes.lines()), ""])


def as_json(filled: FilledTable) -> dict[str, Any]:
    """Every number with all that is known of it."""
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


def _json(part: Part) -> dict[str, Any]:
    raw: dict[str, Any] = to_json(part)
    return {**raw, "difference": part.difference}


def _md(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(map(escaped, row))} |" for row in rows]


def _piece(filled: FilledTable, texts: Sequence[Sequence[list[str]]], columns: Sequence[int]) -> Any:
    table = filled.table
    piece = plain_table(*table.labels)
    for index in columns:
        piece.add_column(literal(table.columns[index].heading, "bold"), justify="right", no_wrap=True)
    for row, cells, lines in zip(table.rows, filled.cells, texts, strict=True):
        shown = [_styled(lines[index], cells[index]) for index in columns]
        piece.add_row(*map(literal, row.labels), *shown)
        piece.add_section()
    return piece


def _pieces(filled: FilledTable, texts: Sequence[Sequence[list[str]]]) -> list[list[int]]:
    """The columns of each piece, as many as fit beside the labels."""
    table = filled.table
    labels = sum(
        GAP + max(len(table.labels[at]), *(len(row.labels[at]) for row in table.rows))
        for at in range(len(table.labels))
    )
    pieces: list[list[int]] = [[]]
    left = WIDTH - labels
    for index, column in enumerate(table.columns):
        width = GAP + max(len(column.heading), *(len(line) for row in texts for line in row[index]))
        if pieces[-1] and width > left:
            pieces.append([])
            left = WIDTH - labels
        pieces[-1].append(index)
        left -= width
    return pieces


def _styled(lines: Sequence[str], cell: Sequence[Part]) -> Text:
    worst = next((status for status in (Status.DIFFERS, Status.MATCHES) if _any(cell, status)), cell[0].status)
    return literal("\n".join(lines), STYLES[worst])


def _any(cell: Sequence[Part], status: Status) -> bool:
    return any(part.status is status for part in cell)


def _lines(cell: Sequence[Part], notes: Footnotes) -> list[str]:
    """Measured, its interval and n, printed, and what that comes to."""
    letters = notes.of(cell)
    marks = f" [{letters}]" if letters else ""
    printed = _joined([_printed(part.printed) for part in cell])
    lines = [f"paper {printed}"] if printed != "-" else []
    if all(part.status is Status.NOT_RUN for part in cell):
        return [f"{SIGNS[Status.NOT_RUN]}{marks}", *lines]
    first = [_joined([_number(part.value) for part in cell]) + marks]
    if len(cell) == 1 and cell[0].low is not None and cell[0].high is not None:
        first.append(f"{_number(cell[0].low)} to {_number(cell[0].high)}")
    return [*first, "n " + _joined([f"{part.n:,}" for part in cell]), *lines, *_verdict(cell)]


def _verdict(cell: Sequence[Part]) -> list[str]:
    if len(cell) == 1:
        part = cell[0]
        away = f"{part.difference:+.1f} " if part.difference is not None else ""
        return [f"{away}{SIGNS[part.status]}"] if part.status in SIGNS else []
    words = [SIGNS.get(part.status, "-") for part in cell]
    return [words[0] if len(set(words)) == 1 else _joined(words)] if set(words) != {"-"} else []


def _joined(texts: Sequence[str]) -> str:
    """``22.6 (100.0, 22.5)``, as the papers print several numbers in a cell."""
    first, *rest = texts
    return f"{first} ({', '.join(rest)})" if rest else first


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def _printed(printed: Printed) -> str:
    if isinstance(printed, float):
        return f"{printed:,.0f}" if abs(printed) >= 1000 else f"{printed:g}"
    return printed or "-"


def _said(part: Part) -> tuple[str, ...]:
    return (part.why,) if part.why else part.notes


def _letter(number: int) -> str:
    """A to z, then aa, ab ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]
