"""The forward functions of the router and of the layers with LoRA blocks.

::

    q = output of the router's layer at the last token of a prompt
    j = argmin_c |q - center_c|,  m = |q - center_j|
    b = block of the point of cluster j that is nearest to q, if m <= radius_j; else none
    W x + s^2 B_b A_b x         in rows with block b, at every token;  s = sqrt(total rank / rank of a block)

Rows without a block keep their output bit for bit. The digest of an edited model covers this file and the state, so
everything that determines an output is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import torch
from torch import Tensor

from ke_weights.plugin import LayerCall

NO_BLOCK = -1


def select_blocks(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
    """Keep the block of each row [B], selected when its prompt is read; the output does not change."""
    if call.kept is not None:
        return call.output
    rows = torch.arange(len(call.output), device=call.output.device)
    blocks = selected(call.output[rows, call.last_prompt.clamp(min=0)], state)
    return call.output, torch.where(call.last_prompt >= 0, blocks, NO_BLOCK)


def selected(queries: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """Return the block of each query [B, d], or NO_BLOCK.

    State: ``centers`` [c, d] and ``radii`` [c] of the clusters; their ``points`` [n, d], with the ``clusters`` [n] that
    they belong to and their ``blocks`` [n].
    """
    on = {name: tensor.to(queries.device) for name, tensor in state.items()}
    nearest, cluster = distances(queries, on["centers"]).min(dim=1)
    members = on["clusters"] == cluster[:, None]
    point = distances(queries, on["points"]).masked_fill(~members, inf).argmin(dim=1)
    return torch.where(nearest <= on["radii"][cluster], on["blocks"][point], NO_BLOCK)


def distances(queries: Tensor, points: Tensor) -> Tensor:
    """Return the Euclidean distances [B, n] in float32."""
    return torch.cdist(queries.float(), points, compute_mode="donot_use_mm_for_euclid_dist")


def add_blocks(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor:
    """Add the product of each row's block. State: ``A`` [blocks, r, in], ``B`` [blocks, out, r] and ``scale``, s^2."""
    assert call.routed is not None, "open it with the adaptor of select_blocks as its router"
    rows = (call.routed != NO_BLOCK).nonzero()[:, 0]
    if not len(rows):
        return call.output
    on = {name: tensor.to(call.output.device) for name, tensor in state.items()}
    blocks = call.routed[rows]
    added = low_rank(call.inputs[rows], on["A"][blocks], on["B"][blocks], on["scale"])
    return call.output.index_copy(0, rows, (call.output[rows] + added).to(call.output.dtype))


def low_rank(inputs: Tensor, down: Tensor, up: Tensor, scale: Tensor) -> Tensor:
    """Return s^2 B A x [..., T, out] for x [..., T, in], ``down`` A [..., r, in] and ``up`` B [..., out, r]."""
    return (inputs.to(down.dtype) @ down.mT @ up.mT) * scale
