"""``ke rollback``: return to an earlier version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import DONE, FAILED, CallProgress, model_choice
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_core.plugin import BadData
from ke_plugin_facts.cli.settings import author_option, folder_option, keep_option, managed_folder, push_option
from ke_plugin_facts.versions import BASE
from ke_weights.saved_edits import recorded_model_choice

if TYPE_CHECKING:
    from ke_core.app import ModelChoice
    from ke_plugin_facts.versions import Lock


@click.command("rollback")
@folder_option
@click.option(
    "--to",
    default="",
    metavar="VERSION",
    help="Number of the version from `ke patch log`, or base. [default: the version before the current one]",
)
@author_option
@keep_option
@push_option
@shared.json_option
@shared.model_options
@click.pass_context
def command(context: click.Context, /, *, out: Path, to: str, author: str, **given: Any) -> int:
    """Return a model to an earlier version.

    It applies the patch of that version to the base model and compares the digest of the weights with the recorded
    one, so the result is equal bit for bit. `--to base` returns to the model without edits. A rollback is a version
    too, so a second `ke rollback` undoes the first.

    \b
    Example: ke rollback --out edited
    """  # fmt: skip
    folder, shown = managed_folder(out, keep=given["keep"]), CallProgress()
    if folder.current() is None:
        raise BadData(f"{out} has no version", hint="make one with ke apply, or name its folder with --out")
    if to and to != BASE:
        folder.earlier(to)
    from ke_plugin_facts.applying import roll_back  # noqa: PLC0415  torch
    from ke_plugin_facts.pushing import open_version_server  # noqa: PLC0415  torch
    from ke_plugin_facts.report import apply_report, rollback_json  # noqa: PLC0415  torch

    def choice(lock: Lock) -> ModelChoice:
        return recorded_model_choice(context, given, lock.base.model, folder=lock.base.folder)

    url, catalog = given["push"], context.obj.catalog
    with folder.changing(), shown.shown():
        server = open_version_server(url, model_choice(given).how, folder, catalog, shown) if url else None
        made = roll_back(folder, to, author, choice, catalog, shown, server=server)
    if given["as_json"]:
        shared.print_json(rollback_json(made))
    else:
        output().print(*apply_report(made, folder))
    return DONE if made.lock is not None else FAILED
