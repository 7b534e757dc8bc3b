"""The file of a published table (TOML): read, checked, and taken apart into cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
"""How a file says that nothing is printed in a cell, and that the paper has no such cell."""


@frozen(kw_only=True)
class RunNumber:
    """One number of a cell: the runs whose mean it is (one, mostly), where it stands in them, what was printed."""

    setups: tuple[Setup, ...]
    pick: Pick
    printed: Printed


@frozen(kw_only=True)
class CellPlan:
    """A cell before anything is run. ``model``: the label of the paper's model, empty where no model is asked."""

    row: RowLayout
    column: ColumnLayout
    model: str
    wanted: tuple[RunNumber, ...]
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Tables:
    """What every plugin offers, by its name and by the plugin's.

    ``clashes``: what two plugins offer, by name. Whoever asks for it might get the other one: nobody does.
    """

    by_name: Mapping[str, ReproductionSpec]
    by_plugin: Mapping[str, Sequence[ReproductionSpec]]
    clashes: Mapping[str, PluginConflict]


def tables(plugins: Plugins) -> Tables:
    """Ask every plugin; one whose hook fails, or that claims a taken name, is marked broken; the others still work."""
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
    """The tables of those names, read. Raises as ``texts`` does, and BadData for a faulty one."""
    return {name: read(text, where=where) for name, (where, text) in texts(plugins, names).items()}


def texts(plugins: Plugins, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Where each table comes from, and its text, by the table's name. ``all``: every one that plugins bring.

    A name that ends in ``.toml`` is a user's own file, whose table is called as the file is, without folder and ending.
    Raises UnknownComponent, PluginConflict for what two plugins offer, and BadData for a file that cannot be read, or a
    second one of the same name.
    """
    offers = tables(plugins)
    found: dict[str, tuple[str, str]] = {}
    for given in dict.fromkeys(offers.by_name if "all" in names else names):
        name = Path(given).stem if given.endswith(".toml") else given
        if name in found:
            raise BadData(f"{found[name][0]} and {given} are both called {name!r}", hint="rename one of the files")
        if given.endswith(".toml"):
            found[name] = given, _text(Path(given))
        elif given in offers.by_name:
            found[name] = given, offers.by_name[given].text()
        elif given in offers.clashes:
            raise offers.clashes[given]
        else:
            raise UnknownComponent(f"no reproduction called {given!r}", hint="ke reproduce list names them all")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"{path} cannot be read: {error}", hint="name a TOML file, or one of ke reproduce list"
        ) from error


def read(text: str, *, where: str) -> Reproduction:
    """The table of a file's text, every cell's settings checked. Raises BadData: file, row, field."""
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
    """Row by row, every cell with its settings completed. Raises BadData for settings that do not fit."""
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
    values = printed if isinstance(printed, list) else [printed] * len(parts) if isinstance(printed, str) else [printed]
    if len(values) != len(parts):
        raise BadData(f"{where}: {len(values)} printed numbers, not {len(parts)}", hint=HINT)
    return CellPlan(
        row=row,
        column=column,
        model=row.model,
        wanted=tuple(
            RunNumber(
                setups=setups,
                pick=structure_record(
                    _merged([table.pick, column.pick, part, row.pick, own]), Pick, where=where, hint=HINT
                ),
                printed=_printed(value, where),
            )
            for part, value in zip(parts, values, strict=True)
        ),
        notes=tuple(note for note in (column.note, row.note) if note),
    )


def _printed(value: Any, where: str) -> Printed:
    if value == UNSAID:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadData(f"{where}: {value!r} is neither a number nor words", hint=HINT)
    return value if isinstance(value, str) else float(value)


def _merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Later layers win; tables in them (options, tags) are merged likewise."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            old = merged.get(name)
            merged[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _by_number(name: str) -> tuple[str, int]:
    """``mquake/table-12`` after ``mquake/table-3``."""
    words, _, number = name.rpartition("-")
    return (words, int(number)) if number.isdecimal() else (name, 0)
