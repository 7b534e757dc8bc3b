"""``ke apply``: make the planned edits, verify them, and write the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Group

from ke_core.app import DONE, FAILED, CallProgress
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_plugin_facts.cli.settings import (
    author_option,
    file_argument,
    keep_option,
    limit_of,
    limit_option,
    managed_folder,
    method_options,
    out_option,
    push_option,
    runs_option,
    target_of,
)
from ke_plugin_facts.fact_file import read_facts


@click.command("apply")
@file_argument
@out_option
@author_option
@keep_option
@runs_option
@limit_option
@click.option("--force", is_flag=True, help="Apply the edits even if they exceed the edit budget.")
@push_option
@shared.json_option
@method_options
@shared.model_options
@click.pass_context
def command(
    context: click.Context, /, *, file: Path, out: Path | None, author: str, runs: Path, limit: float, force: bool,
    **given: Any,
) -> int:  # fmt: skip
    """Edit a model so that the facts of a file hold.

    It makes the changes that `ke plan` prints, and verifies the edited model against the facts, their paraphrases and
    tests, and the facts to keep. If a bound is missed, nothing is changed, and the exit status is 1. The result is
    FOLDER/current/model; `ke rollback` returns to an earlier version.

    With `--push`, the vLLM server at URL also serves the version, as the model FOLDER-VERSION, for example
    `edited-0002`.

    \b
    Examples:
      ke apply facts.toml
      ke apply facts.toml --format peft --push http://127.0.0.1:8000
      ke serve --editor none --model edited/current/model
    """  # fmt: skip
    found, shown = read_facts(file), CallProgress()
    from ke_plugin_facts.applying import Application, apply_plan, serve_current  # noqa: PLC0415  torch
    from ke_plugin_facts.calibration import DecaySources, edit_budget  # noqa: PLC0415  torch
    from ke_plugin_facts.planning import make_plan  # noqa: PLC0415  torch
    from ke_plugin_facts.pushing import open_version_server  # noqa: PLC0415  torch
    from ke_plugin_facts.report import apply_json, apply_report, plan_report  # noqa: PLC0415  torch

    folder, target = managed_folder(out, found, keep=given["keep"]), target_of(context, found, given)
    url, catalog = given["push"], context.obj.catalog
    if url and target.format != "peft":
        raise click.UsageError("--push loads a LoRA adapter: add --format peft")
    with folder.changing(), shown.shown():
        server = open_version_server(url, target.choice.how, folder, catalog, shown) if url else None
        plan = make_plan(found, target, folder, catalog, shown)
        sources = DecaySources(runs=runs, versions=tuple(folder.chain()))
        budget = edit_budget(plan.loaded, plan.component, len(plan.edited), limit_of(context, found, limit), sources)
        how = Application(folder=folder, author=author, budget=budget, force=force, server=server)
        needed = plan.changes or plan.of("refuse")
        applied = apply_plan(plan, found, target, how) if needed else serve_current(plan, found, target, server)
    if given["as_json"]:
        shared.print_json(apply_json(plan, applied))
    else:
        output().print(Group(plan_report(plan, folder), *apply_report(applied, folder)))
    return FAILED if applied is not None and applied.lock is None else DONE
