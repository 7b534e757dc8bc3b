"""``ke diff``: the facts and the weights that differ between two models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import DONE, completion, err, model_choice, progress
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_plugin_facts.cli.settings import CHANGES
from ke_plugin_facts.fact_file import read_facts


@click.command("diff")
@click.argument("first", metavar="MODEL_A", shell_complete=completion.model)
@click.argument("second", metavar="MODEL_B", shell_complete=completion.model)
@click.option(
    "--facts",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Facts to ask: facts.toml, JSON lines or CSV.",
)
@shared.json_option
@shared.loading_options
@click.pass_context
def command(context: click.Context, /, *, first: str, second: str, facts: Path, **given: Any) -> int:
    """Find the facts and the weights that differ between two models.

    It ranks the facts by how much the probability of their target changed, lists the changed weights with the rank of
    the change, and says which kind of editor makes such a change. The exit status is 2 if anything differs. After an
    error it is 2 too, and nothing is printed on standard output.

    \b
    Example: ke diff smollm2-135m edited/current/model --facts facts.toml
    """  # fmt: skip
    asked = read_facts(facts).facts
    from ke_plugin_facts.model_diff import compare_models  # noqa: PLC0415  torch
    from ke_plugin_facts.report import model_diff_json, model_diff_report  # noqa: PLC0415  torch

    one, other = (model_choice({**given, "model": name}) for name in (first, second))
    with progress(err()) as shown:
        found = compare_models(one, other, asked, context.obj.catalog, shown)
    if given["as_json"]:
        shared.print_json(model_diff_json(found))
    else:
        output().print(model_diff_report(found, (first, second)))
    return CHANGES if found.weights or any(one.changed for one in found.facts) else DONE
