"""``ke plan``: what would change so that the facts of a file hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Group

from ke_core.app import DONE, FAILED, CallProgress, literal
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_core.plugin import to_json
from ke_plugin_facts.cli.settings import (
    CHANGES,
    file_argument,
    limit_of,
    limit_option,
    managed_folder,
    method_options,
    out_option,
    runs_option,
    target_of,
)
from ke_plugin_facts.fact_file import read_facts


@click.command("plan")
@file_argument
@out_option
@runs_option
@limit_option
@shared.json_option
@method_options
@shared.model_options
@click.pass_context
def command(context: click.Context, /, *, file: Path, out: Path | None, runs: Path, limit: float, **given: Any) -> int:
    """Compare a file of facts with a model, and print what would change.

    It asks the unedited model every fact: facts that it knows need no edit. Nothing is written. The exit status is 2
    if something would change, 1 if the editor cannot make an edit, and 0 otherwise. After an error the exit status is
    2 too, and nothing is printed on standard output.

    \b
    Example: ke plan facts.toml
    """  # fmt: skip
    found, shown = read_facts(file), CallProgress()
    from ke_plugin_facts.advice import expectation, recorded_editors  # noqa: PLC0415
    from ke_plugin_facts.calibration import DecaySources, edit_budget  # noqa: PLC0415  torch
    from ke_plugin_facts.planning import make_plan  # noqa: PLC0415  torch
    from ke_plugin_facts.report import budget_json, budget_report, plan_json, plan_report  # noqa: PLC0415  torch
    from ke_weights.editor_choice import weight_editors  # noqa: PLC0415  only for this command

    folder, target = managed_folder(out, found), target_of(context, found, given)
    with shown.shown():
        plan = make_plan(found, target, folder, context.obj.catalog, shown)
    usable = {*weight_editors(context.obj.catalog), target.editor}
    recorded = [one for one in recorded_editors(runs, plan.loaded.base.model.digest) if one.editor in usable]
    edits = len(plan.edited)
    advice = expectation(recorded, target.editor, edits, runs) if edits else []
    sources = DecaySources(runs=runs, versions=tuple(folder.chain()))
    budget = edit_budget(plan.loaded, plan.component, edits, limit_of(context, found, limit), sources)
    if given["as_json"]:
        more = {"expected": advice, "recorded": to_json(recorded), "budget": budget_json(budget)}
        shared.print_json(plan_json(plan) | more)
    else:
        output().print(Group(plan_report(plan, folder), *map(literal, advice), *budget_report(budget)))
    return FAILED if plan.of("refuse") else CHANGES if plan.changes else DONE
