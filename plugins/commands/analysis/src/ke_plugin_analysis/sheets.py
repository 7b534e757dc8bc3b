"""Read and write CSV files for spreadsheets, without formulas.

Model output is untrusted. A spreadsheet reads a cell that starts with ``=``, ``+``, ``-`` or ``@`` as a formula, also
after spaces and in full-width form. Such a cell gets an apostrophe in front (OWASP: CSV injection).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ke_core.plugin import BadData, write_atomic

RISKY = frozenset("=+-@\uff1d\uff0b\uff0d\uff20|%")
"""A cell that starts with one of these may be read as a formula or command."""
LONGEST = 32_000
"""Characters of a cell. Spreadsheets cut longer texts at 32,767."""
SEPARATORS = (",", ";", "\t")
"""Separators that spreadsheets use, depending on the locale."""


def write_sheet(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write ``rows`` as CSV in UTF-8 with a byte order mark, with every cell quoted and no formulas."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([harmless(row.get(column, "")) for column in columns] for row in rows)
    write_atomic(path, text.getvalue().encode("utf-8-sig", "backslashreplace"))


def read_sheet(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the row number and the cells of each row below the heading. Raises BadData that names file and row.

    The separator is detected: some locales use a semicolon.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadData(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is not in UTF-8", hint="save it as CSV UTF-8") from error
    heading = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(SEPARATORS, key=heading.count), strict=True)
    try:
        columns = [name.strip().lower() for name in next(rows, [])]
        missing = [name for name in needed if name not in columns]
        if missing:
            raise BadData(
                f"{path}, row 1: column {missing[0]!r} is missing", hint="keep the heading that ke annotate wrote"
            )
        for number, cells in enumerate(rows, start=2):
            if any(cell.strip() for cell in cells):
                yield number, dict(zip(columns, cells, strict=False))
    except csv.Error as error:
        raise BadData(f"{path}, line {rows.line_num} is not CSV: {error}", hint="save it as CSV again") from error


def harmless(text: str) -> str:
    """Return ``text`` as a cell: formulas escaped, without control characters, cut to LONGEST."""
    shown = "".join(mark if mark in "\n\t" or mark.isprintable() else " " for mark in text)
    cut = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    return f"'{cut}" if cut.lstrip()[:1] in RISKY and len(cut.strip()) > 1 else cut  # a single sign is harmless
