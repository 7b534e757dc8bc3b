"""Test published tables without a model: stand-in editors whose replies come from the test.

::

    says = lambda editor, request: gold[request.case, request.query]
    filled = tried(specs, says, root=tmp_path, fallback="mquake-atlas")
    sound(filled)
    assert cell(filled["mquake/table-3"], "MEMIT", "Multi-hop")[0].value == 100.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen, make_class

from ke_benchmarks.reproductions import ReproductionSpec
from ke_core.app import OWN, ByOpaqueId, Catalog, Installed, ModelChoice, Registration, installed_catalog
from ke_core.plugin import Answer, Edit, Editor, EditorRequest, EditorSpec, ModelSpec, Reply, Session, UnsupportedChange
from ke_plugin_reproduce.filled import CellPart, FilledTable, Status
from ke_plugin_reproduce.reading import RunNumber, cells
from ke_plugin_reproduce.reading import read as read_table
from ke_plugin_reproduce.requests import Resources
from ke_plugin_reproduce.running import RequiredRuns, planned
from ke_plugin_reproduce.table import Reproduction
from ke_testing.fakes import ScriptedModel, SilentProgress

ReplyFunction = Callable[[str, EditorRequest], Reply | str]
"""Returns the reply of an editor to a request. The test knows the gold answers by case and query."""
SOURCE = "stand-in"
ANSWERS = "answers"
NOTHING = (" has no ", "no editor is named")
"""Parts of messages about missing numbers, which mostly come from a typing error in the file."""


@frozen(kw_only=True)
class StandInModelConfig:
    """The options of the models."""


@frozen(kw_only=True)
class StandIn:
    """An editor that changes nothing and returns replies of the test.

    It declares gold material, so that requests have real ids.
    """

    name: str
    reply: ReplyFunction

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Accept every edit."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[StandInModel]:
        """Change nothing."""
        del edits
        yield StandInModel(name=self.name, reply=self.reply, answers=session.material[ANSWERS].value)


@frozen(kw_only=True)
class StandInModel:
    """The model that a ``StandIn`` has edited."""

    name: str
    reply: ReplyFunction
    answers: ByOpaqueId[str]
    details: Mapping[str, Any] = field(factory=dict)

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return the test's reply. A text becomes an ``Answer``."""
        real = self.answers.name
        replies = (
            self.reply(self.name, evolve(request, case=real(request.case), query=real(request.query)))
            for request in requests
        )
        return [Answer(text=reply, raw=reply) if isinstance(reply, str) else reply for reply in replies]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Raises UnsupportedChange."""
        del add, remove
        raise UnsupportedChange("a stand-in has no edits to change")


def tables_of(specs: Iterable[ReproductionSpec]) -> dict[str, Reproduction]:
    """Read all tables by name. Raises BadData for an invalid one."""
    return {spec.name: read_table(spec.text(), where=spec.name) for spec in specs}


def tried(
    specs: Iterable[ReproductionSpec],
    reply: ReplyFunction,
    *,
    root: Path,
    limit: int | None = 3,
    fallback: str = "",
    data_dir: str = "",
    model: Callable[[str], str] = lambda _prompt: "",
) -> dict[str, FilledTable]:
    """Run every table with stand-ins for its editors and models.

    Datasets, judges and metrics are the installed ones. An installed editor keeps its options, so that a wrong option
    is found. A missing editor gets the options that the tables set. ``model``: returns the unedited model's completion
    of a prompt; judges with a model use it too. Raises AssertionError for a failed run.
    """
    tables = tables_of(specs)
    catalog = _catalog(tables, reply, model)
    choice = ModelChoice(reference=f"{SOURCE}:1")
    resources = Resources(models=(choice,), judge_model=choice, limit=limit, fallback=fallback, data_dir=data_dir)
    runs = RequiredRuns(catalog=catalog, resources=resources, root=root, progress=SilentProgress())
    found = {}
    for plan in planned(tables, catalog, resources):
        failed = runs.make(plan.needs(), report=lambda _cell, _result: None)
        found[plan.name] = runs.filled(plan)
        assert not failed, f"{plan.name}: {unrun(found[plan.name])}"
    return found


def sound(filled: Mapping[str, FilledTable], *, absent: Collection[str] = ()) -> None:
    """Check that every number has n, every missing number a reason, and every pick a measured score.

    ``absent``: accepted reasons, such as that of a cell that is empty in the paper too. Raises AssertionError with
    table and reason.
    """
    for name, table in filled.items():
        for part in _parts(table):
            if part.status is Status.ABSENT:
                continue
            if part.status is Status.NOT_RUN:
                assert part.why, f"{name}: a cell is empty without a reason"
                missed = any(words in part.why for words in NOTHING) and part.why not in absent
                assert not missed, f"{name}: {part.why}"
            else:
                assert part.n > 0, f"{name}: a number without its n"
                assert part.value is not None, f"{name}: a cell without its number"
                assert math.isfinite(part.value), f"{name}: {part.value}"


def cell(table: FilledTable, row: str | Sequence[str], heading: str) -> tuple[CellPart, ...]:
    """Return the parts of a cell. ``row``: all labels of the row or its last one; the first match counts."""
    labels = [each.labels if not isinstance(row, str) else each.labels[-1] for each in table.table.rows]
    headings = [column.heading for column in table.table.columns]
    return tuple(table.cells[labels.index(row if isinstance(row, str) else tuple(row))][headings.index(heading)])


def unrun(table: FilledTable) -> list[str]:
    """Return the distinct reasons of missing numbers."""
    return list(dict.fromkeys(part.why for part in _parts(table) if part.status is Status.NOT_RUN))


def _parts(table: FilledTable) -> Iterator[CellPart]:
    return (part for row in table.cells for parts in row for part in parts)


def _catalog(tables: Mapping[str, Reproduction], reply: ReplyFunction, model: Callable[[str], str]) -> Catalog:
    """Return the installed components with stand-ins for the tables' editors and a source of scripted models."""
    installed = installed_catalog()
    options = _options(tables)
    here = Installed(name=SOURCE, module=__name__)
    editors = {
        name: Registration(
            spec=_editor(installed, name, options.get(name, set()), reply, own=OWN in styles), plugin=here
        )
        for name, styles in _editors(tables).items()
    }
    source: ModelSpec = ModelSpec(
        name=SOURCE,
        summary="replies from the test",
        config=StandInModelConfig,
        build=lambda _request: ScriptedModel(model),
    )
    models = {SOURCE: Registration(spec=source, plugin=here)}
    return evolve(installed, registrations={**installed.registrations, "editor": editors, "model": models})


def _editor(installed: Catalog, name: str, options: set[str], reply: ReplyFunction, *, own: bool) -> EditorSpec:
    registration = installed.registrations["editor"].get(name)

    def build(_config: object) -> Editor:
        return StandIn(name=name, reply=reply)

    if registration is None:
        fields = {option: field(default="", type=str) for option in sorted(options)}
        config = make_class("Options", fields, kw_only=True, frozen=True)
        spec = EditorSpec(name=name, summary="a substitute", config=config, build=build, masks=True, own_prompt=own)
    else:
        assert isinstance(registration.spec, EditorSpec)
        spec = registration.spec
    return evolve(
        spec,
        build=build,
        needs_weights=False,
        settings=None,
        trainer=None,
        oracle=lambda _config: (ANSWERS,),
        uses_own_edits=True,
    )


def _editors(tables: Mapping[str, Reproduction]) -> dict[str, set[str]]:
    """Return the editors of all cells with the styles that are read."""
    found: dict[str, set[str]] = {}
    for wanted in _wanted(tables):
        for setup in wanted.setups:
            if setup.editor:
                found.setdefault(setup.editor, set()).add(wanted.pick.style)
    return dict(sorted(found.items()))


def _options(tables: Mapping[str, Reproduction]) -> dict[str, set[str]]:
    """Return the options that the tables set, by their prefix."""
    found: dict[str, set[str]] = {}
    for option in (option for wanted in _wanted(tables) for setup in wanted.setups for option in setup.options):
        prefix, _, name = option.partition(".")
        found.setdefault(prefix, set()).add(name)
    return found


def _wanted(tables: Mapping[str, Reproduction]) -> Iterator[RunNumber]:
    return (wanted for table in tables.values() for row in cells(table) for plan in row for wanted in plan.wanted)
