"""The file of a published table (TOML): read, checked, and taken apart into cells."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from ke_core.data.reproductions import ColumnLayout, Pick, Printed, Reproduction, RowLayout, Setup
from ke_core.datasets.reading import fitted
from ke_core.errors import BadData, UnknownComponent
from ke_core.plugins.manager import Plugins
from ke_core.specs import ReproductionSpec

HINT = "docs/reproducing.md explains every field; ke reproduce NAME --show prints a file to start from"
UNSAID, ABSENT = "-", ""
"""How a file says that nothing is printed in a cell, and that the paper has no such cell."""


@frozen(kw_only=True)
class Wanted:
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
    wanted: tuple[Wanted, ...]
    notes: tuple[str, ...] = ()


def offered(plugins: Plugins) -> dict[str, ReproductionSpec]:
    """What every plugin offers, by name. A plugin whose hook fails is marked broken; the others still work."""
    found: dict[str, ReproductionSpec] = {}
    for impl in plugins.manager.hook.ke_reproductions.get_hookimpls():
        try:
            specs: list[ReproductionSpec] = list(cast("Iterable[ReproductionSpec]", impl.function()))
        except Exception as error:  # noqa: BLE001  a plugin may fail in any way; the others must still work
            plugins.mark_broken(impl.plugin_name, error)
            continue
        found |= {spec.name: spec for spec in specs}
    return dict(sorted(found.items(), key=lambda pair: _by_number(pair[0])))


def chosen(plugins: Plugins, names: Sequence[str]) -> dict[str, Reproduction]:
    """Those of the names (``all``: every one); one that ends in ``.toml`` is a file.

    Raises UnknownComponent, BadData.
    """
    known = offered(plugins)
    found: dict[str, Reproduction] = {}
    for name in known if "all" in names else names:
        if name.endswith(".toml"):
            found[Path(name).stem] = read_file(Path(name))
        elif name in known:
            found[name] = read(known[name].text(), where=name)
        else:
            raise UnknownComponent(f"no reproduction called {name!r}", hint="ke reproduce list names them all")
    return found


def read_file(path: Path) -> Reproduction:
    """A user's own file. Raises BadData."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"{path} cannot be read: {error}", hint="name a TOML file, or one of ke reproduce list"
        ) from error
    return read(text, where=str(path))


def read(text: str, *, where: str) -> Reproduction:
    """The table of a file's text, every cell's settings checked. Raises BadData: file, row, field."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadData(f"{where}: no TOML: {error}", hint=HINT) from error
    found = fitted(raw, Reproduction, where=where, hint=HINT)
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
        fitted(_merged([*layers, one, other]), Setup, where=where, hint=HINT)
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
            Wanted(
                setups=setups,
                pick=fitted(_merged([table.pick, column.pick, part, row.pick, own]), Pick, where=where, hint=HINT),
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
