"""Edits inside an open adaptor that tells prompt and answer apart, as adaptors of other edits may."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ke_core.plugin import Edit
from ke_weights.plugin import Adaptor, LayerCall, forward, prompt_lengths, rewrite, target_ids


def shift_answers(call: LayerCall, state: Any) -> Tensor:
    """Add ``state["shift"]`` at the positions of the answer."""
    shifted: Tensor = call.output + state["shift"] * call.answer[..., None]
    return shifted


def open_shift(model: Any, layer: str, width: int) -> AbstractContextManager[Adaptor]:
    """Open an adaptor with ``shift_answers`` at ``layer``, whose output has the size ``width``."""
    draw = torch.Generator().manual_seed(0)
    opened: AbstractContextManager[Adaptor] = model.adapt(
        layer, shift_answers, {"shift": torch.randn(width, generator=draw)}
    )
    return opened


def answer_loss(model: Any, edit: Edit) -> float:
    """Return the mean -log p of the target's tokens after the prompt, from a pass of the whole model as it is."""
    made = rewrite(edit)
    prompt, target = model.encode(made.prompt), target_ids(model.tokenizer, made.prompt, made.target)
    ids = torch.tensor([[*prompt, *target]])
    with torch.no_grad(), prompt_lengths([len(prompt)]):
        logs = forward(model.module, ids, torch.ones_like(ids)).logits[0].float().log_softmax(-1)
    return -float(torch.stack([logs[len(prompt) - 1 + at, token] for at, token in enumerate(target)]).mean())
