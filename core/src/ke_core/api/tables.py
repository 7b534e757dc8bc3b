"""Tables of the Python API: rows that a notebook displays, and that pandas reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib import import_module
from typing import Any, Self

from attrs import frozen
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Printed
from rich.text import Text

SHOWN = 20
"""The number of rows that are displayed."""


@frozen(repr=False)
class Table:
    """Rows with named columns. ``print`` and notebooks display the first 20 rows; ``to_frame`` returns all of them."""

    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Return a table of ``rows``."""
        return cls(tuple(rows))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order of first use."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def to_frame(self) -> Any:
        """Return a pandas data frame. Raises ImportError without pandas."""
        pd = import_module("pandas")  # optional

        return pd.DataFrame(self.rows, columns=self.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> Mapping[str, Any]:
        return self.rows[at]

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        shown = Printed(*self.columns, box=box.SIMPLE_HEAD)
        for row in self._shown():
            shown.add_row(*map(Text, row))
        yield shown
        if self._more:
            yield self._more

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._shown())
        more = f"<p>{self._more}</p>" if self._more else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        console = Console(width=200, color_system=None)
        with console.capture() as written:
            console.print(self)
        return written.get().strip("\n")

    def _shown(self) -> Iterator[list[str]]:
        for row in self.rows[:SHOWN]:
            yield [_text(row.get(name)) for name in self.columns]

    @property
    def _more(self) -> str:
        return f"{len(self) - SHOWN:,} more rows" if len(self) > SHOWN else ""


def _text(value: Any) -> str:
    """Return a cell as text: floats with four significant digits."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
