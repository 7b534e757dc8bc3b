"""Facts in a table: ``.tsv`` or ``.csv``, with or without headings.

Without headings: subject, relation, object. With headings, these three and optionally ``subject_label``,
``object_label``, ``subject_aliases``, ``object_aliases`` (separated by ``|``), ``subject_kind``, ``object_kind``. A row
with the relation ``label``, ``alias`` or ``kind`` describes its subject. An object may be a literal: ``number:120``,
``date:1999-05-01``, ``text:Liberty``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ke_benchmarks.graph.base import literal
from ke_benchmarks.graph.rows import ALIAS, KIND, LABEL, MEANINGS, GraphRow, checked_literal
from ke_core.plugin import BadData, did_you_mean

FACT = ("subject", "relation", "object")
SAYS = {"label": LABEL, "aliases": ALIAS, "kind": KIND}
MORE = tuple(f"{side}_{what}" for side in ("subject", "object") for what in SAYS)
LITERAL = "literals are number:120, date:1999-05-01, text:Liberty, and objects only"
HINT = f"columns: {', '.join(FACT)}; with headings also: {', '.join(MORE)}"


def read_table(path: Path) -> Iterator[GraphRow]:
    """Yield every statement of the file. Raises BadData with file, line and column."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="", errors="strict") as stream:
            tabs = path.suffix == ".tsv"
            lines = csv.reader(
                stream, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
            )
            columns: Sequence[str] = FACT
            for cells in lines:
                number = lines.line_num
                if not any(cell.strip() for cell in cells):
                    continue
                names = [cell.strip().lower() for cell in cells]
                if columns is FACT and len(set(FACT) & set(names)) > 1:
                    columns = _headings(names, path)
                    continue
                yield from _rows(cells, columns, f"{path}, line {number}")
    except UnicodeDecodeError as wrong:
        raise BadData(
            f"{path}, after line {number}: not text in UTF-8 ({wrong.reason})", hint="save it as UTF-8"
        ) from wrong
    except csv.Error as wrong:
        raise BadData(f"{path}, line {number + 1}: {wrong}", hint=HINT) from wrong
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {(wrong.strerror or str(wrong)).lower()}", hint="check the path") from wrong


def _headings(names: list[str], path: Path) -> tuple[str, ...]:
    for name in names:
        if name not in (*FACT, *MORE):
            raise BadData(f"{path}: unknown column {name!r}", hint=did_you_mean(name, (*FACT, *MORE), HINT))
    if len(set(names)) < len(names):
        raise BadData(f"{path}: duplicate column", hint=HINT)
    if missing := [name for name in FACT if name not in names]:
        raise BadData(f"{path}: no column {missing[0]!r}", hint=HINT)
    return tuple(names)


def _rows(cells: Sequence[str], columns: Sequence[str], where: str) -> Iterator[GraphRow]:
    if len(cells) != len(columns):
        raise BadData(f"{where}: {len(cells)} cells instead of {len(columns)}", hint=HINT)
    row = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
    for name in FACT:
        if not row[name]:
            raise BadData(f"{where}: {name} is blank", hint=HINT)
    yield _fact(row, where)
    for side in ("subject", "object"):
        for what, relation in SAYS.items():
            told = row.get(f"{side}_{what}", "")
            for text in told.split("|") if what == "aliases" else (told,):
                if text.strip():
                    yield GraphRow(row[side], relation, text.strip())


def _fact(row: Mapping[str, str], where: str) -> GraphRow:
    relation = MEANINGS.get(row["relation"], row["relation"])
    try:
        checked_literal(row["object"])
    except ValueError as wrong:
        raise BadData(f"{where}: {wrong}", hint=LITERAL) from wrong
    if literal(row["subject"]):
        raise BadData(f"{where}: the subject {row['subject']!r} is a literal", hint=LITERAL)
    return GraphRow(row["subject"], relation, row["object"])
