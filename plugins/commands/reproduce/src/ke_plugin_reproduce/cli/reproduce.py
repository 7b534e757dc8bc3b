"""``ke reproduce``: the tables and figures of the papers, run again and set beside what was printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ke_core.app import DONE, FAILED, App, duration, err, literal, model_choice, out, plain_table, progress, to_bytes
from ke_core.app import options as shared
from ke_core.plugin import write_atomic
from ke_plugin_reproduce import sweep
from ke_plugin_reproduce.cells import Cell, Result
from ke_plugin_reproduce.cli.sweep import plan_page
from ke_plugin_reproduce.reading import read, tables
from ke_plugin_reproduce.report import as_json, markdown, render_table
from ke_plugin_reproduce.requests import Resources
from ke_plugin_reproduce.running import RequiredRuns, cell, planned
from ke_plugin_reproduce.table import Reproduction


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True, metavar="list|all|NAME...")
@click.option("--model", "models", multiple=True, metavar="[SOURCE:]ID", default=(shared.DEFAULT_MODEL,),
              show_default=True, help="The model (repeatable: figures over sizes take several).")  # fmt: skip
@shared.loading_options
@click.option("--judge-model", default="", metavar="[SOURCE:]ID", help="The model of judges that ask one.")
@click.option("--limit", type=click.IntRange(1), default=None, metavar="N",
              help="Take N cases of each dataset; no more are edited at once.")  # fmt: skip
@click.option("--dataset", "fallback", default="", metavar="NAME",
              help="Takes the place of every dataset that is not at hand, such as compke-atlas.")  # fmt: skip
@shared.data_dir
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/reproduce"), show_default=True,
              metavar="FOLDER", help="Where the runs and the finished tables go.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only say what would be run, and what is missing.")
@click.option("--show", is_flag=True, help="Print the file of a table: copy it, change it, name the copy instead.")
@click.pass_obj
def command(app: App, /, *, names: tuple[str, ...], dry_run: bool, show: bool, out: Path, **given: Any) -> int:
    """Run a published table or figure again, and set each number beside the printed one.

    A run that several tables need is made once; one that was interrupted goes on where it stopped. What differs from
    the paper stands in a note: another model, fewer cases, another dataset. A number that cannot be had says why.

    \b
    Examples:
      ke reproduce list
      ke reproduce mquake/table-3 --model smollm2-135m --limit 10 --data-dir DIR
      ke reproduce compke/table-3 --dataset compke-atlas --limit 10
      ke reproduce mquake/table-3 --show > mine.toml
      ke reproduce ./mine.toml --dry-run
    """  # fmt: skip
    from ke_plugin_reproduce.reading import select_tables, texts  # noqa: PLC0415  as above

    if names == ("list",):
        print_tables(app)
        return DONE
    if show:
        for _where, text in texts(app.plugins, names).values():
            click.echo(text, nl=False)
        return DONE
    tables = select_tables(app.plugins, names)
    return print_plan(app, tables, given, out) if dry_run else publish(app, tables, given, out)


def print_tables(app: App) -> None:
    """Every table that a plugin brings, with its title."""
    table = plain_table("name", "what it shows", "paper")
    for name, spec in tables(app.plugins).by_name.items():
        found = read(spec.text(), where=name)
        table.add_row(literal(name), literal(found.title), literal(found.paper))
    out().print(table)


def print_plan(app: App, tables: Mapping[str, Reproduction], given: Mapping[str, Any], root: Path) -> int:
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
            out().print(render_table(filled))
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
