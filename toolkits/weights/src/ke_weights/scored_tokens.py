"""Target tokens scored by a model: padded rows, scored positions, and the loss of each row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_weights.subject import padded


@frozen(kw_only=True, eq=False)
class ScoredTokens:
    """Token ids and mask [rows, T], padded on the right, and the scored positions with their tokens.

    ``row``, ``column``, ``token``, ``weight``: [S]. A row's weights sum to one, so its loss is the mean over its
    target's tokens. The weights are float64 in CPU memory. ``prompts``: tokens of each row's prompt.
    """

    ids: Tensor
    mask: Tensor
    row: Tensor
    column: Tensor
    token: Tensor
    weight: Tensor
    prompts: tuple[int, ...]

    def pick(self, values: Tensor) -> Tensor:
        """Return the values at the scored positions, [S, ...] of [rows or more, T or more, ...]."""
        return values[self.row.to(values.device), self.column.to(values.device)]

    def nll(self, logits: Tensor) -> Tensor:
        """Return the negative log-likelihood of each row's target, [rows], from the picked ``logits`` [S, V]."""
        logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        chosen = logs.gather(1, self.token.to(logs.device)[:, None])[:, 0]
        zero = torch.zeros(len(self.ids), dtype=logs.dtype, device=logs.device)
        return zero.index_add(0, self.row.to(logs.device), -chosen * self.weight.to(logs.dtype).to(logs.device))


def scored_tokens(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]], device: torch.device, *, forced: bool = True
) -> ScoredTokens:
    """Return rows of (prompt ids, target ids) with every target token scored.

    ``forced``: with teacher forcing, each token after the previous ones; otherwise every token at the prompt's last
    position.
    """
    ids, mask = padded([[*prompt, *target[: -1 if forced else 0]] for prompt, target in rows], device)
    where = [
        (at, len(prompt) - 1 + (offset if forced else 0), token, 1 / len(target))
        for at, (prompt, target) in enumerate(rows)
        for offset, token in enumerate(target)
    ]
    row, column, token, weight = zip(*where, strict=True)
    return ScoredTokens(
        ids=ids,
        mask=mask,
        row=torch.tensor(row, device=device),
        column=torch.tensor(column, device=device),
        token=torch.tensor(token, device=device),
        weight=torch.tensor(weight, dtype=torch.float64),
        prompts=tuple(len(prompt) for prompt, _target in rows),
    )


def require_finite(losses: Tensor, edits: Sequence[str], activity: str) -> None:
    """Raise EditFailed with the first edit whose loss is not finite. ``activity``: "while fine-tuning"."""
    if not bool(losses.isfinite().all()):
        name = edits[int((~losses.isfinite()).nonzero()[0, 0])]
        raise EditFailed(
            f"the loss of edit {name!r} is not finite {activity}",
            hint="lower the learning rate, or load the model with --dtype float32",
        )
