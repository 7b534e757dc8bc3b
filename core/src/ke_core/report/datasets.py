"""Datasets as a person reads them: what one is, where its files are, what is wrong with its cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from ke_core.data.files import DataFile
from ke_core.data.soundness import Problem
from ke_core.datasets.handling import Here, Validated
from ke_core.protocols import DatasetInfo
from ke_core.report.numbers import count_noun
from ke_core.report.text import literal, plain_table

ROWS = 60
"""Lines of a table of problems; the rest is counted."""
NAMED = 4
"""Cases named in a line of it."""


def about(info: DatasetInfo) -> Group:
    """License, source, citation and published counts; the checksum of a dataset that is not read from files."""
    counts = "; ".join(f"{label}: {number:,}" for label, number in info.published.items())
    lines = {
        "title": info.title,
        "licence": info.licence,
        "source": info.source,
        "cite": info.cite,
        "sha256": "" if info.files else info.sha256,
        "counts": f"published: {counts}" if counts else "",
    }
    return Group(*(_line(label, text) for label, text in lines.items() if text))


def file_sheet(file: DataFile, found: Here | None, places: Sequence[Path]) -> Group:
    """One file of a dataset: its size as published, where it is and its checksum, or where it is looked for."""
    size = f", {_bytes(file.size)} as published" if file.size else ""
    pin = "fetched by checksum" if file.pinned else "not fetched, since no full checksum is known"
    lines = [_line("file", f"{file.name}{size}; {pin}"), _line("", _state(file, found))]
    if found is None:
        lines += [_line("" if number else "looked", str(place)) for number, place in enumerate(places)]
    else:
        lines.append(_line("sha256", found.sha256))
    return Group(*lines)


def fetched(file: DataFile, found: Here) -> Text:
    """Where a file is, and whether it is the published one."""
    return literal(f"{file.name}: {_state(file, found)}")


def validated(name: str, found: Validated) -> Group:
    """The table of problems, and one line that sums it up."""
    warnings = len(found.problems) - found.errors
    cases = count_noun(found.cases, "case")
    if not found.problems:
        return Group(literal(f"{name}: {cases}, nothing to report", "bold"))
    table = plain_table("", "rule", "what is wrong", "cases", "which")
    table.columns[3].justify = "right"
    for problem in found.problems[:ROWS]:
        style = "red" if problem.level == "error" else "yellow"
        number = f"{len(problem.cases):,}" if problem.cases else ""
        row = (literal(problem.level, style), problem.rule, problem.what, number, _which(problem))
        table.add_row(*(cell if isinstance(cell, Text) else literal(cell) for cell in row))
    shown: list[RenderableType] = [table]
    if len(found.problems) > ROWS:
        shown.append(literal(f"and {len(found.problems) - ROWS:,} more lines: --json lists them all"))
    ends = (count_noun(found.errors, "error"), count_noun(warnings, "warning"))
    shown.append(literal(f"{name}: {cases}, {', '.join(ends)}", "bold"))
    return Group(*shown)


def _line(label: str, text: str) -> Text:
    return literal(f"{label:8} {text}")


def _state(file: DataFile, found: Here | None) -> str:
    if found is None:
        return "not on this machine"
    here = f"{found.path} ({_bytes(found.size)})"
    if found.is_published is None:
        return here
    which = found.version if found.is_published else " or ".join(file.blobs.values())
    version = f" ({which})" if which else ""
    return f"{here}: this {'is' if found.is_published else 'differs from'} the published file{version}"


def _bytes(size: int) -> str:
    return count_noun(size, "byte")


def _which(problem: Problem) -> str:
    more = len(problem.cases) - NAMED
    return ", ".join(problem.cases[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
