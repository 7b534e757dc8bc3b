"""What ``ke reproduce`` does: list, plan, run, print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ke_core.app import DONE, FAILED, App, duration, err, literal, model_choice, out, plain_table, progress, to_bytes
from ke_core.plugin import write_atomic
from ke_plugin_reproduce import sweep
from ke_plugin_reproduce.cells import Cell, Result
from ke_plugin_reproduce.cli.sweeping import plan_page
from ke_plugin_reproduce.reading import read, tables
from ke_plugin_reproduce.report import as_json, drawn, markdown
from ke_plugin_reproduce.requests import Resources
from ke_plugin_reproduce.running import RequiredRuns, cell, planned
from ke_plugin_reproduce.table import Reproduction


def listed(app: App) -> None:
    """Every table that a plugin brings, with its title."""
    table = plain_table("name", "what it shows", "paper")
    for name, spec in tables(app.plugins).by_name.items():
        found = read(spec.text(), where=name)
        table.add_row(literal(name), literal(found.title), literal(found.paper))
    out().print(table)


def dry(app: App, tables: Mapping[str, Reproduction], given: Mapping[str, Any], root: Path) -> int:
    """What would be run, how long that takes by earlier runs, and what is missing."""
    for plan in planned(tables, app.catalog, _means(given)):
        out().print(literal(f"{plan.name}: {plan.planner.table.title}", "bold"))
        cells = [cell(need, root) for need in plan.needs().values()]
        if cells:
            out().print(plan_page(list(sweep.planned(cells, app.catalog)), root))
        missing = dict.fromkeys(part.why for part in plan.parts() if part.why)
        for why in missing:
            out().print(literal(f"  not runnable: {why}", "yellow"), soft_wrap=True)
    return DONE


def publish(app: App, tables: Mapping[str, Reproduction], given: Mapping[str, Any], root: Path) -> int:
    """Run, print each table as soon as its runs are made, and write it beside them."""
    means, failed = _means(given), False
    with progress(err()) as shown:
        runs = RequiredRuns(catalog=app.catalog, means=means, root=root, progress=shown)
        for plan in planned(tables, app.catalog, means):
            failed |= runs.make(plan.needs(), told=_tell)
            filled = runs.filled(plan)
            place = root / plan.name
            write_atomic(place.with_name(f"{place.name}.md"), markdown(filled).encode())
            write_atomic(place.with_name(f"{place.name}.json"), to_bytes(as_json(filled)))
            out().print(drawn(filled))
            err().print(literal(f"  written to {place}.md and .json", "dim"), soft_wrap=True)
    return FAILED if failed else DONE


def _means(given: Mapping[str, Any]) -> Resources:
    judge = given["judge_model"]
    return Resources(
        models=tuple(model_choice({**given, "model": name}) for name in given["models"]),
        judge_model=model_choice({**given, "model": judge}) if judge else None,
        limit=given["limit"],
        fallback=given["fallback"],
        data_dir=str(given["data_dir"]) if given["data_dir"] else "",
    )


def _tell(cell: Cell, result: Result | None) -> None:
    """A line when a run begins, and one when it ends."""
    if result is None:
        err().print(literal(cell.name), soft_wrap=True)
    elif result.status == "failed":
        err().print(
            literal(f"  not run: {result.error}" + (f" ({result.hint})" if result.hint else ""), "yellow"),
            soft_wrap=True,
        )
    else:
        err().print(literal("  known" if result.known else f"  done in {duration(result.seconds)}", "dim"))
