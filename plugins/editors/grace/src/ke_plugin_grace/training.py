"""Training of a value through the adaptor: the layer that is trained is the layer that answers.

::

    L(v) = mean of -log p(target token | prompt, earlier target tokens)     with v as the value of the entry
    v_0 = uniform in [0, 1) (cold), or the layer's output (warm);  T steps of Adam
"""

from __future__ import annotations

import hashlib

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_plugin_grace.codebook import Codebook
from ke_weights.plugin import Adaptor, TrainingRows, frozen_module, prompt_lengths, require_finite


@frozen(kw_only=True)
class EditTokens:
    """The token ids of the prompt and the target of the edit ``id``."""

    id: str
    prompt: tuple[int, ...]
    target: tuple[int, ...]


@frozen(kw_only=True, eq=False)
class TrainedValue:
    """The value [out], and the loss with the first and with the last value."""

    value: Tensor
    before: float
    after: float


def train_value(
    rows: TrainingRows, adaptor: Adaptor, book: Codebook, entry: int, tokens: EditTokens, *, steps: int, lr: float
) -> TrainedValue:
    """Return a value of ``entry`` with which the model continues the prompt with the target, the only one of ``rows``.

    Raises EditFailed if a loss is not finite. The state of ``adaptor`` changes.
    """
    value = book.values[entry].clone().requires_grad_()
    adam = torch.optim.Adam([value], lr=lr)

    def loss() -> Tensor:
        adaptor.replace_state(book.with_value(entry, value).state)
        with adaptor.within_pass(rows.ids, rows.mask):
            found = rows.scored.nll(rows.logits())
        require_finite(found, [tokens.id], "while its value is trained")
        return found[0]

    losses: list[float] = []
    with prompt_lengths([len(tokens.prompt)]), frozen_module(rows.modules.module):
        with torch.enable_grad():
            for _step in range(steps):
                found = loss()
                if not found.requires_grad:
                    raise EditFailed(
                        f"edit {tokens.id!r} replaces no output: its prompt has one token, or rounding puts it outside "
                        "the expanded radius of its entry",
                        hint="use -o grace.replacement=last -o grace.profile=default",
                    )
                losses.append(float(found.detach()))
                adam.zero_grad()
                found.backward(inputs=[value])  # type: ignore[no-untyped-call]  # untyped in torch
                adam.step()
        value = value.detach()
        losses.append(float(loss()))
    return TrainedValue(value=value, before=losses[0], after=losses[-1])


def cold_value(size: int, seed: int, tokens: EditTokens, device: torch.device) -> Tensor:
    """Return a value uniform in [0, 1), [size]. It depends on the seed and the edit, not on earlier edits."""
    text = f"{seed} {tokens.prompt} {tokens.target}"
    generator = torch.Generator().manual_seed(int(hashlib.sha256(text.encode()).hexdigest()[:15], 16))
    return torch.rand(size, generator=generator, dtype=torch.float32).to(device)
