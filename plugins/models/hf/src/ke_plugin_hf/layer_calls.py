"""Calls of an adapted layer: hidden states, and the roles of their positions in the forward call of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import uninterruptible_context

State = Mapping[str, Tensor]


@frozen(kw_only=True, eq=False)
class LayerCall:
    """One call of a layer. B rows (texts), T positions; ``inputs`` [B, T, in], ``output`` [B, T, out].

    ``padding``, ``prompt`` and ``answer`` [B, T] are bool, and exactly one of them is true at each position. Generated
    tokens and the continuations of a likelihood request are answer. ``last_prompt`` [B] is the position of the last
    prompt token of each row, or -1 if an earlier call has read it, as in every decoding step after the first.

    ``kept`` [B, ...]: what the function returned besides the output in an earlier call for these rows, else None.
    ``routed`` [B, ...]: what the function of the adaptor's router keeps of these rows, else None.
    """

    inputs: Tensor
    output: Tensor
    padding: Tensor
    prompt: Tensor
    answer: Tensor
    last_prompt: Tensor
    kept: Tensor | None = None
    routed: Tensor | None = None


LayerForward = Callable[[LayerCall, State], Tensor | tuple[Tensor, Tensor]]
"""From a call and the state to the new output of the layer, with the same shape and dtype.

With a tuple, the second tensor [B, ...] is ``kept`` of later calls that read more tokens of the same rows.
"""


@frozen(kw_only=True, eq=False)
class ForwardRoles:
    """The roles of the positions in one forward call of the model, bool [B, T] and [B], and its cache."""

    padding: Tensor
    prompt: Tensor
    last_prompt: Tensor
    cache: Any = None


_prompts: ContextVar[Sequence[int] | None] = ContextVar("prompt tokens of each row", default=None)


@uninterruptible_context
def prompt_lengths(lengths: Sequence[int]) -> Iterator[None]:
    """Treat the first ``lengths[b]`` tokens of each row as prompt, and later ones as answer, in forward calls of the
    block.

    Without this context, all tokens of a call are prompt, and those of later calls with the same cache are answer.
    """
    token = _prompts.set(lengths)
    try:
        yield
    finally:
        _prompts.reset(token)


def roles_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ForwardRoles:
    """Return the roles of the positions in a call of the whole model with these arguments."""
    fed = kwargs.get("input_ids", args[0] if args else None)
    fed = kwargs["inputs_embeds"] if fed is None else fed
    rows, length = fed.shape[:2]
    mask, cache = kwargs.get("attention_mask"), kwargs.get("past_key_values")
    if mask is None or mask.dim() != 2:
        before = cache.get_seq_length() if cache else 0
        mask = torch.ones((rows, before + length), dtype=torch.int64, device=fed.device)
    prompts, tokens = _prompts.get(), mask.ne(0).to(torch.int64)
    read = tokens.shape[1] - length
    places = tokens.cumsum(1)[:, read:] - 1  # position of each column in its text
    padding = tokens[:, read:] == 0
    if prompts is None:
        counts = (tokens[:, :read] if read else tokens).sum(1)
    else:
        counts = torch.tensor(prompts, dtype=torch.int64, device=tokens.device)
    prompt = (places < counts[:, None]) & ~padding
    here = prompt & (places == counts[:, None] - 1)
    return ForwardRoles(padding=padding, prompt=prompt, last_prompt=_first_true(here), cache=cache)


def whole_prompts(output: Tensor) -> ForwardRoles:
    """Return the roles if the layer is called directly: everything is prompt."""
    rows, length = output.shape[:2] if output.dim() > 2 else (1, output.shape[0])
    prompt = torch.ones((rows, length), dtype=torch.bool)
    return ForwardRoles(padding=~prompt, prompt=prompt, last_prompt=torch.full((rows,), length - 1, dtype=torch.int64))


def _first_true(found: Tensor) -> Tensor:
    """Return the column of the first true value of each row, or -1 if there is none."""
    return torch.where(found.any(1), found.to(torch.int64).argmax(1), -1)
