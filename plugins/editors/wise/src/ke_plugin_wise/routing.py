"""Routing between the main memory W and the side memories W' (WISE section 2.3.1).

A side memory is stored as its difference D = W' - W, so W' x = W x + D x, with the bias of the layer. For a row x with
hidden states k_t at the input of W,

    score    a(x) = mean over t of || D k_t ||                                (equation 4)
             a(x) = mean over t of || act(W k_t) - act(W' k_t) ||             (released code)
    output   W' k_t of the memory with the largest score, if it reaches that memory's threshold; else W k_t (equation 7)

The mean runs over the tokens of the prompt. The decision is made once for each row, when its prompt is read, and used
for all later tokens. As released, it is made in every call, from all tokens of the call.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers.activations import ACT2FN

from ke_weights.plugin import LayerCall

ACTIVATIONS = ("", "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
"""Activation functions of the score, by their number in the state; 0: none."""
MAIN = -1
LONG = 100
"""Rows of more tokens are routed by their largest norm instead of the mean, as released."""


def memory_name(number: int) -> str:
    """Return the name of a side memory in the state."""
    return f"memory {number}"


def with_side_memories(call: LayerCall, state: Mapping[str, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
    """Return the output of the memory chosen for each row. Rows of the main memory keep their output bit for bit.

    State: ``memory 0`` [out, in] and further ones, the differences D; ``thresholds`` [memories]; ``activation``, a
    number; ``released``, 0 or 1; and the ``bias`` that the released code leaves out of side memories, if any.
    """
    released = bool(state["released"])
    if call.kept is not None:
        return _with_chosen(call, state, call.kept)
    chosen, moved = _routed(call, state, ~call.padding if released else call.prompt, longest=released)
    output = torch.where((chosen == MAIN)[:, None, None], call.output, (call.output + moved).to(call.output.dtype))
    return output if released else (output, chosen)


def _with_chosen(call: LayerCall, state: Mapping[str, Tensor], chosen: Tensor) -> Tensor:
    """Return the output with the memories that were chosen when the prompts were read; reads only those."""
    output = call.output
    for number in sorted(set(chosen.tolist()) - {MAIN}):
        rows = (chosen == number).nonzero()[:, 0]
        moved = side_difference(call.inputs[rows], state[memory_name(number)], state.get("bias"))
        output = output.index_copy(0, rows, (call.output[rows] + moved).to(output.dtype))
    return output


def _routed(call: LayerCall, state: Mapping[str, Tensor], tokens: Tensor, *, longest: bool) -> tuple[Tensor, Tensor]:
    """Return the number of each row's memory [B], and its W' k - W k [B, T, out]."""
    activation = ACTIVATIONS[int(state["activation"])]
    chosen = torch.full_like(call.last_prompt, MAIN)
    best = torch.zeros_like(chosen, dtype=state["thresholds"].dtype)
    moved = torch.zeros_like(call.output)
    for number, threshold in enumerate(state["thresholds"]):
        its = side_difference(call.inputs, state[memory_name(number)], state.get("bias"))
        score = routing_score(call.output, its, tokens, activation, longest=longest)
        wins = (score > best) & (score >= threshold)
        best = torch.where(wins, score, best)
        chosen = torch.where(wins, number, chosen)
        moved = torch.where(wins[:, None, None], its, moved)
    return chosen, moved


def side_difference(inputs: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
    """Return W' k - W k for inputs k [B, T, in]: D k, minus a ``bias`` that only the main memory has. [B, T, out]."""
    return linear(inputs.to(memory.dtype), memory, None if bias is None else -bias.to(memory.dtype))


def routing_score(output: Tensor, moved: Tensor, tokens: Tensor, activation: str, *, longest: bool = False) -> Tensor:
    """Return a(x) of each row [B] from W k and W' k - W k [B, T, out], over the ``tokens`` [B, T].

    ``longest``: the largest norm instead of the mean in rows of more than LONG tokens.
    """
    if activation:
        act = ACT2FN[activation]
        moved = act(output + moved) - act(output)
    norms = torch.linalg.vector_norm(moved.to(torch.promote_types(moved.dtype, torch.float32)), dim=-1)
    norms = torch.where(tokens, norms, 0)
    counts = tokens.sum(1)
    mean = norms.sum(1) / counts.clamp(min=1)
    return torch.where(counts > LONG, norms.amax(1), mean) if longest else mean
