"""Plan the cells of a sweep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from attrs import evolve, field, fields_dict, frozen

from ke_core.app import (
    DATA_DIR,
    Catalog,
    EvalRequest,
    ModelChoice,
    Plan,
    ResolvedRun,
    RunFolder,
    configure,
    resolve_run,
    to_bytes,
)
from ke_core.plugin import (
    BadConfig,
    EditorSpec,
    KEError,
    ModelRequest,
    digest,
    find_model,
    loads,
    to_json,
    write_atomic,
)
from ke_plugin_reproduce.cells import Cell, Datasets, Result, finished
from ke_plugin_reproduce.sweep_file import SweepFile

LOCAL = ("device", "device_map", "concurrency", "timeout", "api_key_env")
"""Settings of loading that do not change a run, and therefore not its folder."""
LONGEST = 100  # characters of a folder's name before its hash


@frozen(kw_only=True)
class SweepPoint:
    """One combination of the swept settings."""

    editor: str
    dataset: str
    model: str
    k: int | None
    seed: int
    varied: tuple[tuple[str, str, str], ...] = ()
    """Prefix, option and value."""

    def words(self) -> list[tuple[str, str]]:
        """Return the value of each axis as text."""
        found = [("editors", self.editor), ("datasets", self.dataset)]
        found.append(("models", self.model.rstrip("/").rpartition("/")[2]))
        found += [("k", f"k={'all' if self.k is None else self.k}"), ("seeds", f"seed={self.seed}")]
        return found + [("vary", f"{option}={value}") for _prefix, option, value in self.varied]

    def name(self, sweep: SweepFile) -> str:
        """Return the displayed name: the editor and the settings that differ between cells."""
        several = {axis for axis in ("datasets", "models", "k", "seeds") if len(getattr(sweep, axis)) > 1}
        return " ".join(word for axis, word in self.words() if axis in {"editors", "vary", *several})

    @property
    def folder(self) -> str:
        """Return a folder name with all settings."""
        words = "-".join(word for _axis, word in self.words()).replace("=", "")
        return re.sub(r"[^A-Za-z0-9.,_-]+", "-", words)[:LONGEST]


@frozen(kw_only=True)
class PlannedCell:
    """A cell before it is run. ``found``: the resolved run; None if ``error`` has the reason why it cannot be run.

    ``done``: its run is finished. ``interrupted``: its run has begun and is not finished.
    """

    cell: Cell
    found: ResolvedRun | None = None
    done: bool = False
    interrupted: bool = False
    error: KEError | None = field(default=None, eq=False)


def cells_of(sweep: SweepFile, catalog: Catalog, root: Path) -> list[Cell]:
    """Return every cell, each with its own folder in ``root``. The editor is the outermost loop.

    An editor without a model runs once, not for every model. Raises UnknownComponent and BadConfig for names and
    options that no cell can use.
    """
    _refuse_unknown(sweep, catalog)
    made: list[Cell] = []
    for axes in _choices(sweep, catalog):
        request = _request(sweep, axes, catalog)
        folder = root / f"{axes.folder}-{identity(request)[:8]}"
        made.append(Cell(name=axes.name(sweep), request=request, folder=folder))
    times = Counter(cell.name for cell in made)  # two models' folders may end alike
    return [
        cell if times[cell.name] == 1 else evolve(cell, name=f"{cell.name} {cell.folder.name[-8:]}") for cell in made
    ]


def planned(cells: Sequence[Cell], catalog: Catalog) -> Iterator[PlannedCell]:
    """Yield each cell, resolved without its model. A shared dataset is read once."""
    datasets = Datasets()
    for cell in cells:
        try:
            found = resolve_run(cell.request, catalog, read=datasets.read)
            _refuse_large_batch(found)
        except KEError as error:
            yield PlannedCell(cell=cell, error=error)
            continue
        done = finished(found, cell.folder)
        yield PlannedCell(cell=cell, found=found, done=done, interrupted=not done and RunFolder.is_one(cell.folder))


def _refuse_large_batch(found: ResolvedRun) -> None:
    """Raise BadConfig if fewer cases are edited together than the cell's ``k`` says."""
    size, there = found.spec.plan.size, len(found.cases)
    if size is not None and size > there:
        raise BadConfig(
            f"{size} cases cannot be edited together: there are {there}", hint='use a smaller k, or k = "all"'
        )


def identity(request: EvalRequest) -> str:
    """Return a SHA-256 of the settings that determine the results of a request."""
    defaults = ModelRequest(id="")
    how = evolve(request.model.how, **{name: getattr(defaults, name) for name in LOCAL})
    return digest(to_json(evolve(request, data_dir="", model=evolve(request.model, how=how))))


def _refuse_unknown(sweep: SweepFile, catalog: Catalog) -> None:
    """Check names and options once for all cells."""
    editors = [catalog.spec("editor", name) for name in sweep.editors]
    datasets = [catalog.spec("dataset", name) for name in sweep.datasets]
    for model in sweep.models:
        find_model(model, sweep.model, catalog)
    specs = {spec.prefix: spec for spec in (*editors, *datasets)}
    for prefix, spec in specs.items():
        varied = {name: values[0] for name, values in sweep.vary.get(prefix, {}).items()}
        configure(spec, {**sweep.options.get(prefix, {}), **varied})
        for name, values in sweep.vary.get(prefix, {}).items():
            for value in values:
                configure(spec, {**sweep.options.get(prefix, {}), **varied, name: value})


def _choices(sweep: SweepFile, catalog: Catalog) -> Iterator[SweepPoint]:
    own = {catalog.spec("editor", name).prefix for name in sweep.editors}
    own |= {catalog.spec("dataset", name).prefix for name in sweep.datasets}
    for editor, dataset in product(sweep.editors, sweep.datasets):
        spec = catalog.spec("editor", editor)
        assert isinstance(spec, EditorSpec)
        takes_part = {spec.prefix, catalog.spec("dataset", dataset).prefix}
        axes = [
            [(prefix, option, value) for value in values]
            for prefix, options in sweep.vary.items()
            if prefix in takes_part or prefix not in own
            for option, values in options.items()
        ]
        models = sweep.models if spec.needs_model else sweep.models[:1]
        for model, k, seed, varied in product(models, sweep.k, sweep.seeds, product(*axes)):
            yield SweepPoint(editor=editor, dataset=dataset, model=model, k=k, seed=seed, varied=varied)


def _request(sweep: SweepFile, axes: SweepPoint, catalog: Catalog) -> EvalRequest:
    """Return the request of a cell, with only the options of its components."""
    others = {catalog.spec("editor", name).prefix for name in sweep.editors}
    others |= {catalog.spec("dataset", name).prefix for name in sweep.datasets}
    others -= {catalog.spec("editor", axes.editor).prefix, catalog.spec("dataset", axes.dataset).prefix}
    options = {prefix: dict(given) for prefix, given in sweep.options.items() if prefix not in others}
    for prefix, option, value in axes.varied:
        options.setdefault(prefix, {})[option] = value
    return EvalRequest(
        editor=axes.editor,
        dataset=axes.dataset,
        model=ModelChoice(reference=axes.model, how=sweep.model),
        options=options,
        plan=Plan(
            protocol=sweep.protocol,
            size=axes.k,
            limit=sweep.limit,
            eval_limit=sweep.eval_limit,
            sequential=sweep.sequential,
            eval_every=sweep.eval_every,
            eval_set=sweep.eval_set,
        ),
        styles=sweep.styles,
        edited_form=sweep.edited_form,
        judge=sweep.judge,
        metrics=sweep.metrics,
        seed=axes.seed,
        prompts=sweep.prompts,
        data_dir=sweep.data_dir if DATA_DIR in fields_dict(catalog.spec("dataset", axes.dataset).config) else "",
    )


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


def summary_in(root: Path) -> list[dict[str, str]]:
    """Return the cells of the summary in ``root``: their name, folder, status and error. Empty without a summary."""
    try:
        cells = loads((root / SUMMARY).read_bytes())["cells"]
        return [{key: str(cell.get(key, "")) for key in ("name", "folder", "status", "error")} for cell in cells]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def failed_in(root: Path) -> list[FailedCell]:
    """Return the failed cells from the summary in ``root``; empty without a summary."""
    return [FailedCell(name=cell["name"], error=cell["error"]) for cell in summary_in(root)
            if cell["status"] == "failed"]  # fmt: skip
