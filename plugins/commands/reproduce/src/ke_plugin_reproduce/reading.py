"""Read the TOML file of a published table, check it, and list its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_benchmarks import structure_record
from ke_benchmarks.reproductions import ReproductionSpec
from ke_core.app import Plugins, name_conflict, registered_specs
from ke_core.plugin import BadData, PluginConflict, UnknownComponent, parse_toml
from ke_plugin_reproduce.table import ColumnLayout, Pick, Printed, Reproduction, RowLayout, Setup

HINT = "docs/reproducing.md explains every field; ke reproduce NAME --show prints a file to start from"
UNSAID, ABSENT = "-", ""
"""Marks of a cell without a published number, and of a cell that the paper does not have."""


@frozen(kw_only=True)
class RunNumber:
    """One number of a cell: its runs (mostly one; else their mean), its place in their scores, the published number.

    ``decimals``: of the published number.
    """

    setups: tuple[Setup, ...]
    pick: Pick
    printed: Printed
    decimals: int = 1


@frozen(kw_only=True)
class CellPlan:
    """A cell before it is run. ``model``: the label of the paper's model; empty if the cell needs none."""

    row: RowLayout
    column: ColumnLayout
    model: str
    wanted: tuple[RunNumber, ...]
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Tables:
    """The registered tables by name, and the plugin of each.

    ``clashes``: names that two plugins use. These tables are not available.
    """

    by_name: Mapping[str, ReproductionSpec]
    by_plugin: Mapping[str, Sequence[ReproductionSpec]]
    clashes: Mapping[str, PluginConflict]


def tables(plugins: Plugins) -> Tables:
    """Collect the tables of all plugins. A plugin whose hook fails or that reuses a name is marked as broken."""
    by_name: dict[str, ReproductionSpec] = {}
    by_plugin: dict[str, list[ReproductionSpec]] = {}
    clashes: dict[str, PluginConflict] = {}
    for plugin, specs in registered_specs(plugins, "ke_reproductions", ReproductionSpec):
        by_plugin[plugin] = specs
        for spec in specs:
            if spec.name in by_name:
                owner = next(name for name, theirs in by_plugin.items() if spec.name in {one.name for one in theirs})
                clashes[spec.name] = name_conflict(f"reproduction {spec.name!r}", owner, plugin)
                plugins.mark_broken(plugin, clashes[spec.name])
                break
            by_name[spec.name] = spec
    kept = [spec for spec in by_name.values() if spec.name not in clashes]
    kept.sort(key=lambda spec: _by_number(spec.name))
    return Tables(by_name={spec.name: spec for spec in kept}, by_plugin=by_plugin, clashes=clashes)


def select_tables(plugins: Plugins, names: Sequence[str]) -> dict[str, Reproduction]:
    """Read the named tables. Raises the errors of ``texts``, and BadData for an invalid table."""
    return {name: read(text, where=where) for name, (where, text) in texts(plugins, names).items()}


def texts(plugins: Plugins, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return origin and text of each table by its name. ``all`` stands for every registered table.

    A name that ends in ``.toml`` is a file, and its table is named after it. Raises UnknownComponent, PluginConflict
    for a name that two plugins use, and BadData for an unreadable file or a duplicate name.
    """
    offers = tables(plugins)
    found: dict[str, tuple[str, str]] = {}
    for given in dict.fromkeys(offers.by_name if "all" in names else names):
        name = Path(given).stem if given.endswith(".toml") else given
        if name in found:
            raise BadData(f"{found[name][0]} and {given} have the same name: {name!r}", hint="rename one of the files")
        if given.endswith(".toml"):
            found[name] = given, _text(Path(given))
        elif given in offers.by_name:
            found[name] = given, offers.by_name[given].text()
        elif given in offers.clashes:
            raise offers.clashes[given]
        else:
            raise UnknownComponent(f"unknown reproduction: {given!r}", hint="ke reproduce list prints the names")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"{path} cannot be read: {error}", hint="pass a TOML file or a name from ke reproduce list"
        ) from error


def read(text: str, *, where: str) -> Reproduction:
    """Parse a table and check the settings of every cell. Raises BadData with file, row and field."""
    found = structure_record(parse_toml(text, where, hint=HINT), Reproduction, where=where, hint=HINT)
    for number, row in enumerate(found.rows, start=1):
        counted = [("labels", row.labels, found.labels), ("printed", row.printed, found.columns)]
        counted += [("picks", row.picks, found.columns)] if row.picks else []
        for label, given, wanted in counted:
            if len(given) != len(wanted):
                raise BadData(f"{where}, row {number}: {len(given)} {label}, not {len(wanted)}", hint=HINT)
        if row.model and row.model not in found.models:
            raise BadData(f"{where}, row {number}: no model {row.model!r} under [models]", hint=HINT)
    list(cells(found, where=where))
    return found


def cells(table: Reproduction, *, where: str = "") -> Iterator[list[CellPlan]]:
    """Return the cells row by row with complete settings. Raises BadData for invalid settings."""
    for number, row in enumerate(table.rows, start=1):
        yield [
            _cell(table, row, index, where=f"{where}, row {number}, column {column.heading!r}")
            for index, column in enumerate(table.columns)
        ]


def _cell(table: Reproduction, row: RowLayout, index: int, *, where: str) -> CellPlan:
    column, printed = table.columns[index], row.printed[index]
    layers = [table.set, column.set, row.set]
    own = row.picks[index] if row.picks else {}
    setups = tuple(
        structure_record(_merged([*layers, one, other]), Setup, where=where, hint=HINT)
        for one in column.over or ({},)
        for other in row.over or ({},)
    )
    parts = column.parts or ({},)
    values = _values(printed, parts)
    if len(values) != len(parts):
        raise BadData(f"{where}: {len(values)} printed numbers, not {len(parts)}", hint=HINT)
    picks = [
        structure_record(_merged([table.pick, column.pick, part, row.pick, own]), Pick, where=where, hint=HINT)
        for part in parts
    ]
    return CellPlan(
        row=row,
        column=column,
        model=row.model,
        wanted=tuple(
            RunNumber(
                setups=setups,
                pick=pick,
                printed=_printed(value, where),
                decimals=_decimals(_in_column(table, index, at) if pick.source == "scores" else [value]),
            )
            for at, (pick, value) in enumerate(zip(picks, values, strict=True))
        ),
        notes=tuple(note for note in (column.note, row.note) if note),
    )


def _values(printed: Any, parts: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Return the published value of each part of a cell. A text stands for all parts."""
    if isinstance(printed, list):
        return printed
    return [printed] * len(parts) if isinstance(printed, str) else [printed]


def _in_column(table: Reproduction, index: int, part: int) -> list[Any]:
    """Return the published values of one part in all rows of a column."""
    parts = table.columns[index].parts or ({},)
    return [value for row in table.rows for value in _values(row.printed[index], parts)[part : part + 1]]


def _decimals(values: Sequence[Any]) -> int:
    """Return the largest number of decimals, because TOML drops trailing zeros; 1 without a number."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return max((len(f"{Decimal(repr(number)):f}".partition(".")[2]) for number in numbers), default=1)


def _printed(value: Any, where: str) -> Printed:
    if value == UNSAID:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadData(f"{where}: {value!r} is neither a number nor a text", hint=HINT)
    if isinstance(value, str) and value.startswith("<"):
        try:
            float(value.removeprefix("<"))
        except ValueError as error:
            raise BadData(
                f"{where}: {value!r} is no upper bound", hint='write "<" and a number, such as "<1"'
            ) from error
    return value if isinstance(value, str) else float(value)


def _merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers recursively. Later layers win."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            old = merged.get(name)
            merged[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _by_number(name: str) -> tuple[str, int]:
    """Return a sort key that puts ``mquake/table-12`` after ``mquake/table-3``."""
    words, _, number = name.rpartition("-")
    return (words, int(number)) if number.isdecimal() else (name, 0)
