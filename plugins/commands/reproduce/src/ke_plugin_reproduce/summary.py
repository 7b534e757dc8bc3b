"""``sweep.json`` in the folder of a sweep: the result of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

from ke_core.app import to_bytes
from ke_core.plugin import loads, write_atomic
from ke_plugin_reproduce.cells import Cell, Result

SUMMARY = "sweep.json"


@frozen(kw_only=True)
class FailedCell:
    """A failed cell and the reason."""

    name: str
    error: str


def write_summary(root: Path, cells: Iterable[Cell], results: Mapping[str, Result]) -> None:
    """Write the summary atomically. ``results`` are by the names of the cells. Raises KEError on a full disk."""
    lines = []
    for cell in cells:
        found = results.get(cell.name)
        line: dict[str, object] = {"name": cell.name, "folder": cell.folder.name, "status": "waiting"}
        if found is not None:
            line |= {"status": found.status, "failures": found.failures, "seconds": round(found.seconds, 3)}
            line |= {"error": found.error, "hint": found.hint, "details": found.details} if found.error else {}
        lines.append(line)
    write_atomic(root / SUMMARY, to_bytes({"cells": lines}))


def failed_in(root: Path) -> list[FailedCell]:
    """Return the failed cells from the summary in ``root``; empty without a summary."""
    try:
        cells = loads((root / SUMMARY).read_bytes())["cells"]
        return [
            FailedCell(name=str(cell["name"]), error=str(cell["error"])) for cell in cells if cell["status"] == "failed"
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
