"""``ke patch``: describe, apply, revert and compare patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import App, ModelChoice, err, literal, out, progress
from ke_core.app import options as shared
from ke_core.plugin import ModelRequest, to_json
from ke_weights.patches.header import patch_id, read_header, read_info
from ke_weights.save_targets import SaveTargets
from ke_weights.saved_edits import recorded_model_choice

patch_argument = click.argument("patch", type=click.Path(path_type=Path), metavar="PATCH")
out_folder = click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Save the checkpoint here."
)
force = click.option("--force", is_flag=True, help="Replace an existing model in the folder.")


@click.group("patch")
def command() -> None:
    """Describe, apply, revert and compare patches.

    A patch is a file of weight updates. `ke edit --patch FILE` saves one.

    \b
    Example: ke patch apply facts.safetensors --model smollm2-135m --out ./edited
    """


@command.command("info")
@patch_argument
@shared.json_option
def info(*, patch: Path, as_json: bool) -> None:
    """Print the base model, editor, edits, weights and size of a patch.

    \b
    Example: ke patch info facts.safetensors
    """
    from ke_weights.report.patches import info_json, info_report  # noqa: PLC0415

    found = read_info(patch)
    name, size = patch_id(found), patch.stat().st_size
    if as_json:
        shared.print_json(info_json(name, found, size))
    else:
        out().print(info_report(name, found, size))


@command.command("apply")
@patch_argument
@shared.model_options
@out_folder
@force
@click.pass_context
def apply(context: click.Context, /, *, patch: Path, out: Path, force: bool, **given: Any) -> None:
    """Save a model with a patch applied.

    The model must be the one that the patch was made for, in the same dtype. The folder is a regular checkpoint. It
    also contains the data for `ke patch revert`. To stack patches of one base, apply the next one to this folder.

    \b
    Example: ke patch apply facts.safetensors --model smollm2-135m --out ./edited
    """
    base = read_header(patch).base
    choice = recorded_model_choice(context, given, base.model, folder=base.folder)
    SaveTargets(out=out, force=force).check(choice)
    from ke_weights.saving import apply_patch  # noqa: PLC0415  torch

    with progress(err()) as shown:
        apply_patch(patch, choice, out, context.obj.catalog, shown, force=force)
    _say(f"checkpoint: {out}")


@command.command("revert")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER")
@click.argument("patch", default="", metavar="[PATCH]")
@click.option("--all", "all_", is_flag=True, help="Revert all patches and restore the base, bit for bit.")
@shared.device
@shared.device_map
@shared.trust
@out_folder
@force
@click.pass_obj
def revert(app: App, /, *, folder: Path, patch: str, all_: bool, out: Path, force: bool, **how: Any) -> None:
    """Save a checkpoint with a patch reverted.

    PATCH is a file, or an id that `ke patch info` prints. The weights are restored bit for bit from tensors in the
    folder, and their digest is checked. The dtype is the recorded one.

    \b
    Example: ke patch revert ./edited --all --out ./base
    """
    if bool(patch) == all_:
        raise click.UsageError("no patch is given: add its file or id, or --all")
    SaveTargets(out=out, force=force).check(ModelChoice(reference=str(folder)))
    from ke_weights.saving import revert_patch  # noqa: PLC0415  torch

    with progress(err()) as shown:
        gone, weights = revert_patch(
            folder, patch, out, app.catalog, shown, force=force, how=ModelRequest(id="", **how)
        )
    _say(f"reverted: {', '.join(gone)}", f"checkpoint: {out}", f"weights {weights}")


@command.command("diff")
@click.argument("one", type=click.Path(path_type=Path), metavar="A")
@click.argument("other", type=click.Path(path_type=Path), metavar="B")
@shared.json_option
def diff(*, one: Path, other: Path, as_json: bool) -> None:
    """Compare two patches: the weights and facts that they share.

    \b
    Example: ke patch diff spring.safetensors summer.safetensors
    """
    for path in (one, other):
        read_header(path)
    from ke_weights.patches import compare_patches, read_patch  # noqa: PLC0415  torch
    from ke_weights.report.patches import diff_report  # noqa: PLC0415

    both = read_patch(one), read_patch(other)
    found = compare_patches(*both)
    if as_json:
        shared.print_json(to_json(found))
    else:
        out().print(diff_report((both[0].id, both[1].id), found))


def _say(*lines: str) -> None:
    for line in lines:
        out().print(literal(line), soft_wrap=True)
