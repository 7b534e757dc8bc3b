"""What ``ke edit`` and ``ke patch`` write. Each file or folder is written completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve
from torch import Tensor

from ke_core.app import Catalog, EditedModel, ModelChoice, installed_catalog
from ke_core.plugin import DEFAULT_LOADING, BadConfig, BadPatch, KEError, ModelRequest, Progress
from ke_weights.editing import LoadedModel, active_patch, open_model_for_edits, save_adaptor, with_history
from ke_weights.patches.adapter import write_adapter
from ke_weights.patches.apply import applied
from ke_weights.patches.checkpoint import read_history, reverted, write_checkpoint
from ke_weights.patches.format import StoredPatch, read_patch, write_patch
from ke_weights.patches.identity import weights_digest
from ke_weights.patches.place import whole_folder
from ke_weights.save_targets import SaveTargets


def write_edit(
    targets: SaveTargets, loaded: LoadedModel, patch: StoredPatch, originals: Mapping[str, Tensor]
) -> list[str]:
    """Write everything, with ``loaded``'s model edited by ``patch``. Return a line per file or folder.

    The patch is written first: it contains the complete edit, even if writing the folder fails.
    """
    lines: list[str] = []
    if targets.patch is not None:
        write_patch(patch, targets.patch)
        lines.append(f"patch {patch.id}: {targets.patch}")
    if targets.out is not None:
        try:
            lines.append(_write_folder(targets, targets.out, loaded, patch, originals))
        except KEError as error:
            if targets.patch is not None:
                error.details += (f"the patch {patch.id} was written: {targets.patch}",)
            raise
    return lines


def _write_folder(
    targets: SaveTargets, to: Path, loaded: LoadedModel, patch: StoredPatch, originals: Mapping[str, Tensor]
) -> str:
    if targets.format == "merged":
        write_merged(loaded, [patch], originals, to, force=targets.force)
        return f"checkpoint: {to}"
    with whole_folder(to, force=targets.force) as folder:
        rank = write_adapter(patch, loaded.model.module, folder)
    return f"adapter of rank {rank}: {to}"


def save_active_edit(edited: EditedModel, what: str, path: Path, *, force: bool) -> None:
    """Save the active edits of the Python API as ``what``: ``patch``, ``adapter`` or ``checkpoint``.

    The patch is applied to the unedited model before it is written, as in ``make_edit``. The ``checkpoint`` of an
    adaptor is the folder of ``ke edit --out``. Raises BadConfig for an editor that changes no weights and for a path
    that cannot be written.
    """
    spec = edited.editor.spec
    saves_state = spec.adaptor and what == "checkpoint"
    if edited.recorded is None and not saves_state:
        raise BadConfig(
            f"{spec.name} changes no weights: it is no weight editor ({spec.editor_kind})",
            hint="save_pretrained saves an adaptor" if spec.adaptor else "ke serve keeps a memory editor active",
        )
    targets = (
        SaveTargets(patch=path, force=force)
        if what == "patch"
        else SaveTargets(out=path, format="peft" if what == "adapter" else "merged", force=force)
    )
    targets.check(edited.model.choice)
    if hasattr(edited.model.module, "peft_config"):
        raise BadConfig(
            "the edit cannot be saved: the model has peft adapters, and the files would not contain them",
            hint="merge them before the edit, with model.merge_and_unload()",
        )
    with edited.unedited():
        loaded = with_history(edited.session, edited.model.choice, installed_catalog())
    if saves_state:
        with TemporaryDirectory() as folder:
            save_adaptor(edited, loaded.base, Path(folder))
            targets.write_adaptor(Path(folder))
        return
    with active_patch(edited, loaded) as (patch, originals):
        write_edit(targets, loaded, patch, originals)


def write_merged(
    loaded: LoadedModel, added: Sequence[StoredPatch], originals: Mapping[str, Tensor], to: Path, *, force: bool
) -> None:
    """Write the edited model as a checkpoint with its history, including patches of earlier edits."""
    past = loaded.past
    base = past.history.base if past else loaded.base
    patches = (*past.patches, *added) if past else tuple(added)
    kept = {**originals, **past.originals} if past else originals  # the oldest tensors are the base's
    with whole_folder(to, force=force) as folder:
        write_checkpoint(loaded.model, folder, base=base, patches=patches, originals=kept)


def apply_patch(path: Path, model: ModelChoice, to: Path, catalog: Catalog, progress: Progress, *, force: bool) -> None:
    """Write ``model`` edited by the patch in ``path``: ``ke patch apply``.

    Raises BadPatch for another model, and for one that contains the patch.
    """
    patch = read_patch(path)
    SaveTargets(out=to, force=force).check(model)
    loaded = open_model_for_edits(model, catalog, progress)
    with applied(loaded.model, patch, loaded.history) as weights:
        write_merged(loaded, [patch], weights.originals(), to, force=force)


def revert_patch(
    folder: Path,
    patch: str,
    to: Path,
    catalog: Catalog,
    progress: Progress,
    *,
    force: bool,
    how: ModelRequest = DEFAULT_LOADING,
) -> tuple[tuple[str, ...], str]:
    """Write ``folder``'s checkpoint without ``patch`` (a file or an id; empty: without any): ``ke patch revert``.

    ``how``: loading options, except those in the history. Return the removed ids and the digest of the written weights.
    Raises BadPatch if ``folder`` has no such patch, BadConfig if a path cannot be written.
    """
    past = read_history(folder)
    if past is None:
        raise BadPatch(f"{folder} has no patch history", hint="use a folder written by ke edit --out or ke patch apply")
    SaveTargets(out=to, force=force).check(ModelChoice(reference=str(folder)))
    model = past.history.base.model
    choice = ModelChoice(reference=str(folder), how=evolve(how, dtype=model.dtype, chat=model.chat))
    gone = {one.id for one in past.patches} if not patch else {_named(patch, [one.id for one in past.patches], folder)}
    loaded = open_model_for_edits(choice, catalog, progress)
    keep = [one for one in past.patches if one.id not in gone]
    touched = {name for one in keep for name in one.deltas}
    originals = {name: tensor for name, tensor in past.originals.items() if name in touched}
    with reverted(loaded.model, past, keep), whole_folder(to, force=force) as work:
        write_checkpoint(loaded.model, work, base=past.history.base, patches=keep, originals=originals)
        digest = weights_digest(loaded.model.module)
    return tuple(one.id for one in past.patches if one.id in gone), digest


def _named(patch: str, ids: Sequence[str], folder: Path) -> str:
    """Return the id of a patch file, or the id that starts with this text."""
    wanted = read_patch(Path(patch)).id if Path(patch).is_file() else patch
    found = [one for one in ids if one.startswith(wanted)]
    if len(found) > 1:
        raise BadPatch(
            f"{len(found)} patches of {folder} begin with {wanted!r}: {', '.join(found)}", hint="give more of the id"
        )
    if not found:
        raise BadPatch(f"{folder} has no patch {wanted!r}", hint=f"use one of {', '.join(ids)}, or --all")
    return found[0]
