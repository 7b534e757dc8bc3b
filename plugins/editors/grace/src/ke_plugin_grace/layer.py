"""The forward functions of the adapted layer, one for each ``replacement``, and what the layer computes for a prompt.

The digest of an edited model covers this file and the state, so everything that determines an output is in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ke_weights.plugin import Hooks, LayerCall, LayerForward, forward, frozen_module, padded

Replacement = Literal["last", "prompt", "all"]


def replace_last(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor:
    """Replace the output at the last token of the prompt."""
    return replaced(call, state, queried(call, state), last_token(call))


def replace_prompt(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor:
    """Replace the output at the tokens of the prompt before its last one."""
    return replaced(call, state, queried(call, state), call.prompt & ~last_token(call))


def replace_all(call: LayerCall, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Replace the output at all tokens. The entry of a row is looked up once, when its prompt is read."""
    entries = queried(call, state) if call.kept is None else call.kept.to(call.output.device)
    return replaced(call, state, entries, ~call.padding), entries


FUNCTIONS: Mapping[Replacement, LayerForward] = {"last": replace_last, "prompt": replace_prompt, "all": replace_all}


def queried(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor:
    """Return the entry of each row [B], from the input at its last prompt token; -1 for none."""
    rows, at = torch.arange(len(call.inputs), device=call.inputs.device), call.last_prompt.clamp(min=0)
    entries = matched(call.inputs[rows, at.to(rows.device)], state).to(call.output.device)
    return torch.where(call.last_prompt >= 0, entries, -1)


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the Euclidean distances [B, n] in float32."""
    return torch.cdist(queries.float(), keys.to(queries.device), compute_mode="donot_use_mm_for_euclid_dist")


def matched(queries: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """Return the entry of each query [B, in]: that of the nearest key, or -1 outside its radius."""
    nearest, entry = distances(queries, state["keys"]).min(dim=1)
    return torch.where(nearest <= state["radii"].to(entry.device)[entry], entry, -1)


def last_token(call: LayerCall) -> Tensor:
    """Return where the last token of a prompt is, bool [B, T]."""
    columns = torch.arange(call.prompt.shape[1], device=call.prompt.device)
    return columns[None] == call.last_prompt[:, None]


def replaced(call: LayerCall, state: Mapping[str, Tensor], entries: Tensor, where: Tensor) -> Tensor:
    """Return the output with the values of ``entries`` at ``where`` [B, T], in rows that have an entry."""
    row, column = (where & (entries >= 0)[:, None]).nonzero(as_tuple=True)
    values = state["values"].to(call.output.device)[entries[row]]
    return call.output.index_put((row, column), values.to(call.output.dtype))


def key_and_output(module: nn.Module, name: str, prompt: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return input and output of the layer ``name`` at the last token of a prompt, float32 [in] and [out]."""
    place, seen = module.get_submodule(name), list[Tensor]()
    ids, mask = padded([prompt], device)
    with frozen_module(module), Hooks() as hooks:
        hooks.before(place, lambda args, _kwargs: seen.append(args[0].reshape(len(prompt), -1)[-1]))
        hooks.after(place, lambda output: seen.append(output.reshape(len(prompt), -1)[-1]))
        hooks.stop_after(place)
        forward(module, ids, mask)
    key, output = (one.detach().float() for one in seen)
    return key, output
