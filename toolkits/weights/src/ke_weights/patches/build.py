"""Build a patch from the updates of an editor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import torch
from torch import nn

from ke_core.app import Component
from ke_core.plugin import Details, SourcedEdit
from ke_plugin_hf.guard import Delta, LowRank
from ke_weights.patches.delta import combined, norm, shape_of
from ke_weights.patches.format import StoredPatch, hashes, tensors_of
from ke_weights.patches.info import PatchBase, PatchInfo, WeightChange


def build_patch(
    module: nn.Module,
    deltas: Mapping[str, Sequence[Delta]],
    *,
    base: PatchBase,
    editor: Component,
    edits: Sequence[SourcedEdit],
    details: Details,
) -> StoredPatch:
    """Return one patch of all ``deltas``. ``module`` has the unedited weights, for their norms."""
    sums = {name: combined(parts) for name, parts in deltas.items()}
    changes = tuple(_change(module, name, delta) for name, delta in sums.items())
    info = PatchInfo(
        ke=version("ke-core"), base=base, editor=editor, edits=tuple(edits), weights=changes, details=details
    )
    return StoredPatch(info=info, deltas=sums)


def _change(module: nn.Module, name: str, delta: Delta) -> WeightChange:
    low = isinstance(delta, LowRank)
    return WeightChange(
        name=name,
        kind="low-rank" if low else "dense",
        shape=shape_of(delta),
        rank=delta.left.shape[1] if isinstance(delta, LowRank) else None,
        norm=norm(delta),
        base_norm=float(torch.linalg.vector_norm(module.get_parameter(name).detach().float())),
        sha256=hashes(tensors_of(name, delta)),
    )
