"""``ke reproduce``: reproduce published tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from ke_core.app import DONE, FAILED, App, completion, duration, err, literal, model_choice, out, progress, to_bytes
from ke_core.app import options as shared
from ke_core.plugin import write_atomic
from ke_plugin_reproduce import sweep
from ke_plugin_reproduce.cells import Cell, Result
from ke_plugin_reproduce.cli.launching import LAUNCH_OPTIONS, Launch, only_command, print_detached
from ke_plugin_reproduce.cli.sweep import plan_json, plan_page
from ke_plugin_reproduce.launcher import LOCAL
from ke_plugin_reproduce.launching import LaunchedRunner
from ke_plugin_reproduce.reading import read, tables
from ke_plugin_reproduce.report import markdown, render_table, table_json
from ke_plugin_reproduce.requests import Resources
from ke_plugin_reproduce.running import RequiredRuns, cell, planned
from ke_plugin_reproduce.table import Reproduction


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True, metavar="list|all|NAME...")
@shared.section(
    "Data",
    click.option(
        "--limit",
        type=click.IntRange(1),
        default=None,
        metavar="N",
        help="Use N cases of each dataset, and edit at most N at once.",
    ),
    click.option(
        "--dataset",
        "fallback",
        default="",
        metavar="NAME",
        shell_complete=completion.component("dataset"),
        help="Dataset that replaces missing ones, such as compke-atlas.",
    ),
    shared.data_dir,
)
@shared.section(
    "Model",
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="[SOURCE:]ID",
        default=(shared.DEFAULT_MODEL,),
        show_default=True,
        shell_complete=completion.model,
        help="Model (repeatable, for figures over several sizes).",
    ),
    shared.loading_options,
    click.option(
        "--judge-model",
        default="",
        metavar="[SOURCE:]ID",
        shell_complete=completion.model,
        help="Model for judges that need one.",
    ),
)
@shared.section(
    "Run",
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path("runs/reproduce"),
        show_default=True,
        metavar="FOLDER",
        help="Folder for the runs and tables.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the planned runs and what is missing; run nothing."),
    click.option("--show", is_flag=True, help="Print the file of a table. You can edit a copy, and use its name."),
    shared.json_option,
)
@LAUNCH_OPTIONS
@click.pass_obj
def command(
    app: App, /, *, names: tuple[str, ...], dry_run: bool, show: bool, out: Path, as_json: bool, **given: Any
) -> int:
    """Reproduce published tables and figures.

    It prints each number next to the published one. Tables share runs. The same command resumes interrupted runs.
    Notes list the differences from the paper, such as another model, fewer cases or another dataset, and the reason
    for each missing number.

    \b
    Examples:
      ke reproduce list
      ke reproduce mquake/table-3 --model smollm2-135m --limit 10 --data-dir DIR
      ke reproduce compke/table-3 --dataset compke-atlas --limit 10
      ke reproduce mquake/table-3 --show > mine.toml
      ke reproduce ./mine.toml --dry-run
      ke reproduce all --launcher submitit --launcher-option slurm_partition=gpu
    """  # fmt: skip
    from ke_plugin_reproduce.reading import select_tables, texts  # noqa: PLC0415  as above

    if names == ("list",):
        print_tables(app, as_json=as_json)
        return DONE
    if show:
        for _where, text in texts(app.plugins, names).values():
            click.echo(text, nl=False)
        return DONE
    tables = select_tables(app.plugins, names)
    if dry_run:
        return print_plan(app, tables, given, out, as_json=as_json)
    return publish(app, tables, given, out, as_json=as_json)


def print_tables(app: App, *, as_json: bool) -> None:
    """Print the tables of all plugins, with their titles."""
    found = {name: read(spec.text(), where=name) for name, spec in tables(app.plugins).by_name.items()}
    rows = [{"name": name, "title": table.title, "paper": table.paper} for name, table in found.items()]
    shared.print_rows(rows, as_json=as_json)


def print_plan(
    app: App, tables: Mapping[str, Reproduction], given: Mapping[str, Any], root: Path, *, as_json: bool
) -> int:
    """Print the planned runs, their estimated time, and what is missing."""
    rows = []
    for plan in planned(tables, app.catalog, _resources(given)):
        made = list(sweep.planned([cell(need, root) for need in plan.needs().values()], app.catalog))
        missing = list(dict.fromkeys(part.why for part in plan.parts() if part.why))
        if as_json:
            title = plan.planner.table.title
            rows.append({"name": plan.name, "title": title, "cells": plan_json(made, root), "missing": missing})
            continue
        out().print(literal(f"{plan.name}: {plan.planner.table.title}", "bold"))
        if made:
            out().print(plan_page(made, root))
        for why in missing:
            out().print(literal(f"  not runnable: {why}", "yellow"), soft_wrap=True)
    if as_json:
        shared.print_json(rows)
    return DONE


def publish(
    app: App, tables: Mapping[str, Reproduction], given: Mapping[str, Any], root: Path, *, as_json: bool
) -> int:
    """Run, and print and save each table when its runs are finished. A launcher gets the runs of all tables at once.

    Without a launcher, several commands can compute different tables in one folder.
    """
    launch = Launch.of(given)
    resources, failed, rows = _resources(given), False, []
    with nullcontext() if launch.launcher == LOCAL else only_command(root), progress(err()) as shown:
        runner = launch.runner(app, root, shown)
        plans = planned(tables, app.catalog, resources)
        needs = {key: need for plan in plans for key, need in plan.needs().items()}
        if launch.detach:
            assert isinstance(runner, LaunchedRunner)
            results: list[Result | None] = []

            def report(cell: Cell, result: Result | None) -> None:
                results.append(result)
                _print_launched(cell, result)

            print_detached(runner.submit([cell(need, root) for need in needs.values()], report=report), root)
            return FAILED if any(result and result.status == "failed" for result in results) else DONE
        runs = RequiredRuns(catalog=app.catalog, resources=resources, root=root, progress=shown, runner=runner)
        if isinstance(runner, LaunchedRunner):
            runs.make(needs, report=_print_launched)
        for plan in plans:
            failed |= runs.make(plan.needs(), report=_print_progress)
            filled = runs.filled(plan)
            place = root / plan.name
            write_atomic(place.with_name(f"{place.name}.md"), markdown(filled).encode())
            write_atomic(place.with_name(f"{place.name}.json"), to_bytes(table_json(filled)))
            if as_json:
                rows.append(table_json(filled))
            else:
                out().print(render_table(filled))
            err().print(literal(f"  saved as {place}.md and .json", "dim"), soft_wrap=True)
    if as_json:
        shared.print_json(rows)
    return FAILED if failed else DONE


def _resources(given: Mapping[str, Any]) -> Resources:
    judge = given["judge_model"]
    return Resources(
        models=tuple(model_choice({**given, "model": name}) for name in given["models"]),
        judge_model=model_choice({**given, "model": judge}) if judge else None,
        limit=given["limit"],
        fallback=given["fallback"],
        data_dir=str(given["data_dir"]) if given["data_dir"] else "",
    )


def _print_progress(cell: Cell, result: Result | None) -> None:
    """Print a line when a run begins, and one when it ends."""
    if result is None:
        err().print(literal(cell.name), soft_wrap=True)
    elif result.status == "failed":
        err().print(
            literal(f"  not run: {result.error}" + (f" ({result.hint})" if result.hint else ""), "yellow"),
            soft_wrap=True,
        )
    else:
        err().print(literal("  finished before" if result.known else f"  done in {duration(result.seconds)}", "dim"))


def _print_launched(cell: Cell, result: Result | None) -> None:
    """Print the lines of runs that are active at the same time, each with the name of its run."""
    words = "started" if result is None else f"not run: {result.error}" if result.error else "done"
    err().print(literal(f"{cell.name}: {words}"), soft_wrap=True)
