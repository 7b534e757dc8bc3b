"""Apply patches to a model while a context is active."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ke_core.plugin import BadPatch
from ke_plugin_hf.guard import Patch, map_orientation
from ke_plugin_hf.model import HFModel
from ke_weights.patches.format import StoredPatch
from ke_weights.patches.identity import weights_digest
from ke_weights.patches.info import History, PatchBase, PatchInfo


@contextmanager
def applied(model: HFModel, patch: StoredPatch, history: History | None = None) -> Iterator[Patch]:
    """Apply ``patch`` to ``model``; on exit, the weights are restored bit for bit.

    ``history``: of the edited checkpoint that ``model`` was loaded from; a patch of its base can be stacked on it.
    Raises BadPatch, and changes nothing, if the patch was made for other weights.
    """
    check_fits(model, patch, history)
    with model.patch() as weights:
        add(weights, patch)
        yield weights


def add(weights: Patch, patch: StoredPatch) -> None:
    """Add every update of ``patch``, which must fit."""
    for name, delta in patch.deltas.items():
        weights.add(name, delta)


def check_fits(model: HFModel, patch: StoredPatch, history: History | None = None) -> None:
    """Raise BadPatch unless ``patch`` was made for these weights, or for the base of ``history``.

    Also raise it for a patch that ``history`` contains already.
    """
    if history is not None and patch.id in {one.id for one in history.patches}:
        raise BadPatch(f"this checkpoint contains patch {patch.id} already", hint="apply each patch once")
    check_base(patch.info, weights_digest(model.module), _dtype(model), history)
    parameters = dict(model.module.named_parameters())
    for change in patch.info.weights:
        owner = change.name.rpartition(".")[0]
        found = parameters.get(change.name)
        shape = None if found is None else tuple(map_orientation(model.module.get_submodule(owner), found).shape)
        if shape != change.shape:
            has = "does not have" if shape is None else f"maps as {shape}"
            raise BadPatch(
                f"patch {patch.id} changes {change.name} of shape {change.shape}, which this model {has}",
                hint="load the model as it was loaded for ke edit, with the same version of transformers",
            )


def check_base(info: PatchInfo, weights: str, dtype: str, history: History | None) -> None:
    """Raise BadPatch if the patch was made neither for ``weights`` nor for the base of ``history``."""
    if info.base.weights == weights:
        return
    if history is not None and history.weights == weights and history.base.weights == info.base.weights:
        return
    raise BadPatch(
        f"the patch was made for weights {info.base.weights[:12]} ({described(info.base)}), "
        f"and these are {weights[:12]} ({dtype})",
        hint=f"load {info.base.reference.partition(':')[2]} with --dtype {info.base.model.dtype}",
    )


def described(base: PatchBase) -> str:
    """Return the base as text: ``smollm2-135m in float32``."""
    return f"{base.model.id} in {base.model.dtype}"


def _dtype(model: HFModel) -> str:
    return str(model.module.dtype).removeprefix("torch.")
