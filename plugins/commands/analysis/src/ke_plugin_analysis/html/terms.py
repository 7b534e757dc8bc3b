"""Definitions of the terms on the page, from ``terms.toml``, shown as tooltips and in a list at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ke_core.app import Grid
from ke_core.plugin import read_toml

DEFINITIONS = read_toml(Path(__file__).with_name("terms.toml"))
"""Definitions by name, in the tables ``styles``, ``verdicts``, ``names`` and ``columns``."""
NAMES: Mapping[str, str] = DEFINITIONS["names"] | DEFINITIONS["styles"]
COLUMNS: Mapping[str, str] = DEFINITIONS["columns"]


class Terms:
    """Looks up definitions and records which ones the page uses. ``summaries``: editor to its one-line summary."""

    def __init__(self, summaries: Mapping[str, str]) -> None:
        self._summaries = summaries
        self.used: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return the definition of an editor, a prompt style or another name; empty if there is none."""
        return self._use(name, NAMES.get(name) or self._summaries.get(name.split(",", maxsplit=1)[0], ""))

    def column(self, grid: Grid, index: int) -> str:
        """Return the definition of a column of numbers; empty if there is none."""
        if index >= len(grid.group):
            return ""
        column = grid.group[index]
        found = COLUMNS.get(f"{column.metric}.{column.aspect}") or COLUMNS.get(column.aspect, "")
        return self._use(column.heading, found)

    def _use(self, name: str, definition: str) -> str:
        if name and definition:
            self.used.setdefault(name, definition)
        return definition
