"""Edited checkpoints: the files of ``save_pretrained``, and the files that restore the base.

::

    DIR/config.json model.safetensors tokenizer.json ...      readable by any software that loads checkpoints
    DIR/ke_patches/history.json                               the base, and the applied patches, in order
    DIR/ke_patches/originals.safetensors                      the base's own tensors of every changed weight
    DIR/ke_patches/1-ID.safetensors ...                       the patches

Subtracting an update does not restore the weight: about 7% of its entries differ, in every dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from attrs import frozen
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ke_core.plugin import BadPatch, canonical, file_errors, from_json, read_object, to_json, uninterruptible_context
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.quiet import quiet
from ke_weights.patches.apply import add
from ke_weights.patches.format import StoredPatch, read_patch, write_patch
from ke_weights.patches.identity import weights_digest
from ke_weights.patches.info import PATCH_SCHEMA, AppliedPatch, History, PatchBase

FOLDER, HISTORY, ORIGINALS = "ke_patches", "history.json", "originals.safetensors"
AGAIN = "apply the patch to the base again with ke patch apply"


@frozen(kw_only=True, eq=False)
class LoadedHistory:
    """History of an edited checkpoint: ``originals`` by parameter name, ``patches`` in order of application."""

    history: History
    originals: Mapping[str, Tensor]
    patches: tuple[StoredPatch, ...]


def read_history(folder: Path) -> LoadedHistory | None:
    """Return the history in ``folder``, or None if ke did not edit it. Raises BadPatch if it is damaged."""
    about = folder / FOLDER
    if not about.is_dir():
        return None
    raw = read_object(about / HISTORY, error=BadPatch, hint=AGAIN)
    try:
        originals = load_file(about / ORIGINALS)
    except (OSError, ValueError, SafetensorError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise BadPatch(f"{about / ORIGINALS} is damaged: {why}", hint=AGAIN) from error
    schema = raw.get("schema", 0)
    if not isinstance(schema, int) or schema > PATCH_SCHEMA:
        raise BadPatch(f"{about / HISTORY} was written by a newer ke", hint="install a newer ke-core")
    history = from_json(raw, History, of=str(about / HISTORY), error=BadPatch, hint=AGAIN)
    patches = tuple(_recorded_patch(about, step) for step in history.patches)
    return LoadedHistory(history=history, originals=originals, patches=patches)


def _recorded_patch(about: Path, step: AppliedPatch) -> StoredPatch:
    """Read a patch of the history. Raises BadPatch for a file outside ``about``, and for another patch than recorded.

    A checkpoint may come from another person: its history must not refer to other files on this machine.
    """
    if Path(step.file).name != step.file or "\\" in step.file:
        raise BadPatch(f"{about / HISTORY} names a file outside its folder: {step.file!r}", hint=AGAIN)
    patch = read_patch(about / step.file)
    if patch.id != step.id:
        raise BadPatch(f"{about / step.file} is patch {patch.id}, and {HISTORY} says {step.id}", hint=AGAIN)
    return patch


def write_checkpoint(
    model: HFModel, to: Path, *, base: PatchBase, patches: Sequence[StoredPatch], originals: Mapping[str, Tensor]
) -> History | None:
    """Write ``model`` into the empty folder ``to``, with its history if it contains a patch.

    ``originals``: the base's tensors of all weights that ``patches`` change, as the module stores them.
    """
    with quiet(), file_errors(f"cannot write {to.name}"):
        model.module.save_pretrained(to)
        model.tokenizer.save_pretrained(to)
    if not patches:
        return None
    about = to / FOLDER
    steps = []
    with file_errors(f"cannot write {about}"):
        about.mkdir()
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in originals.items()}, about / ORIGINALS)
        for number, patch in enumerate(patches, start=1):
            file = f"{number}-{patch.id}.safetensors"
            write_patch(patch, about / file)
            info = patch.info
            name, count, on = info.editor.name, len(info.edits), info.base.weights
            steps.append(AppliedPatch(id=patch.id, file=file, base=on, editor=name, edits=count))
        history = History(base=base, weights=weights_digest(model.module), patches=tuple(steps))
        (about / HISTORY).write_text(canonical(to_json(history)) + "\n", encoding="utf-8")
    return history


def check_unchanged(model: HFModel, past: LoadedHistory, folder: Path) -> None:
    """Raise BadPatch unless ``model``, loaded from ``folder``, is the result of that folder's history."""
    shapes = {name: parameter.shape for name, parameter in model.module.named_parameters(remove_duplicate=False)}
    strange = [name for name, tensor in past.originals.items() if tensor.shape != shapes.get(name)]
    if strange:
        raise BadPatch(f"{folder / FOLDER / ORIGINALS} does not fit the model: {strange[0]}", hint=AGAIN)
    found = weights_digest(model.module)
    if found != past.history.weights:
        raise BadPatch(
            f"the weights in {folder} are {found[:12]}, but its history says {past.history.weights[:12]}",
            hint="restore the folder that ke wrote, or load it in its own dtype",
        )


@contextmanager
def reverted(model: HFModel, past: LoadedHistory, keep: Sequence[StoredPatch]) -> Iterator[None]:
    """Restore ``model`` to its base, with only ``keep`` applied again, in order; on exit, it is as before.

    ``keep``: some of the history's patches, in their order. The base is restored bit for bit from the saved tensors,
    and its digest is checked. Raises BadPatch if the digest is wrong, or if a patch of ``keep`` was made on top of a
    removed one.
    """
    _check_can_stay(past, keep)
    base = past.history.base.weights
    with _replaced(model, past.originals):
        if weights_digest(model.module) != base:
            raise BadPatch(f"the saved tensors do not restore weights {base[:12]}", hint=AGAIN)
        with model.patch() as weights:
            for patch in keep:
                add(weights, patch)
            yield


@uninterruptible_context
def _replaced(model: HFModel, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Replace the parameters of ``model`` with these names by ``tensors`` while the block runs."""
    now = {name: model.module.get_parameter(name).detach().clone() for name in tensors}
    try:
        _copy(model, tensors)
        yield
    finally:
        _copy(model, now)


def _check_can_stay(past: LoadedHistory, keep: Sequence[StoredPatch]) -> None:
    """Raise BadPatch for a patch of ``keep`` without the patches that it was made on.

    It was made on the base, or on the base with all earlier patches: ``check_base`` allows no other. Patches are
    identified by id: when they are applied on another device, rounding can change the digest.
    """
    base, ids = past.history.base.weights, [patch.id for patch in past.patches]
    for count, patch in enumerate(keep, start=1):
        if patch.info.base.weights != base and [one.id for one in keep[:count]] != ids[:count]:
            raise BadPatch(
                f"patch {patch.id} was made on top of earlier patches and needs them",
                hint=f"revert it first with ke patch revert, or all with --all (patches: {', '.join(ids)})",
            )


def _copy(model: HFModel, tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in tensors.items():
            model.module.get_parameter(name).copy_(tensor)
