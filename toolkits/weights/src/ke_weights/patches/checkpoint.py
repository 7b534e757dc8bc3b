"""Edited checkpoints: what ``save_pretrained`` writes, and beside it what gives the base back.

::

    DIR/config.json model.safetensors tokenizer.json ...      any software that reads checkpoints reads these
    DIR/ke_patches/history.json                               the base, and the patches added to it, in order
    DIR/ke_patches/originals.safetensors                      the base's own tensors of every weight that was touched
    DIR/ke_patches/1-ID.safetensors ...                       the patches

Subtracting an update does not give the weight back: about 7 % of its entries differ, in every dtype.
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
AGAIN = "edit the base again: ke patch apply"


@frozen(kw_only=True, eq=False)
class LoadedHistory:
    """An edited checkpoint's past, read: ``originals`` by parameter name, ``patches`` in the order they were added."""

    history: History
    originals: Mapping[str, Tensor]
    patches: tuple[StoredPatch, ...]


def read_history(folder: Path) -> LoadedHistory | None:
    """What ``folder`` remembers, or None where it was not edited by ke. Raises BadPatch where that is damaged."""
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

    A checkpoint may come from somebody else: its history must not name files elsewhere on this machine.
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
    """Write ``model`` as it stands into the empty folder ``to``, with its past unless no patch is in it.

    ``originals``: the base's tensors of all that ``patches`` touch, as the module stores them.
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
    """Raise BadPatch unless ``model``, loaded from ``folder``, is what that folder's past leads to."""
    shapes = {name: parameter.shape for name, parameter in model.module.named_parameters(remove_duplicate=False)}
    strange = [name for name, tensor in past.originals.items() if tensor.shape != shapes.get(name)]
    if strange:
        raise BadPatch(f"{folder / FOLDER / ORIGINALS} does not fit the model: {strange[0]}", hint=AGAIN)
    found = weights_digest(model.module)
    if found != past.history.weights:
        raise BadPatch(
            f"the weights in {folder} are {found[:12]}, and its patches left {past.history.weights[:12]}",
            hint="they were changed by something else, or loaded in another dtype; take the folder as ke wrote it",
        )


@contextmanager
def reverted(model: HFModel, past: LoadedHistory, keep: Sequence[StoredPatch]) -> Iterator[None]:
    """``model`` given back to its base, with only ``keep`` added again, in order; at the end it is as it was.

    ``keep``: some of the past's patches, in the order they have there.

    The base comes back bit for bit, from the tensors that were kept, and its digest is checked. Raises BadPatch where
    it is not the base's, and where a patch of ``keep`` was made on top of one that is taken away.
    """
    _check_can_stay(past, keep)
    base = past.history.base.weights
    with _replaced(model, past.originals):
        if weights_digest(model.module) != base:
            raise BadPatch(f"the tensors that were kept do not give weights {base[:12]} back", hint=AGAIN)
        with model.patch() as weights:
            for patch in keep:
                add(weights, patch)
            yield


@uninterruptible_context
def _replaced(model: HFModel, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """``model`` with ``tensors`` in place of its parameters of those names."""
    now = {name: model.module.get_parameter(name).detach().clone() for name in tensors}
    try:
        _copy(model, tensors)
        yield
    finally:
        _copy(model, now)


def _check_can_stay(past: LoadedHistory, keep: Sequence[StoredPatch]) -> None:
    """Raise BadPatch for a patch of ``keep`` that is taken off what it was made on.

    That is the base, or the base with all the patches before it: ``check_base`` lets no other in. Told by their ids:
    the digest of patches that are added again on another device may be another, since that may round otherwise.
    """
    base, ids = past.history.base.weights, [patch.id for patch in past.patches]
    for count, patch in enumerate(keep, start=1):
        if patch.info.base.weights != base and [one.id for one in keep[:count]] != ids[:count]:
            raise BadPatch(
                f"patch {patch.id} was made on top of the patches before it: it cannot stay without them",
                hint=f"take it out first with ke patch revert, or everything with --all (patches: {', '.join(ids)})",
            )


def _copy(model: HFModel, tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in tensors.items():
            model.module.get_parameter(name).copy_(tensor)
