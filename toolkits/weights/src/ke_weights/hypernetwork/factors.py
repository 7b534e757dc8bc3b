"""The rank-one factors of the gradient of an edit.

For a linear layer W on the tokens of a batch, dL/dW = sum_t g_t x_t^T, with its input x_t and g_t = dL/d(output_t)
(MEND section 3; MALMEN calls them keys and value gradients).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_hf.model import HFModel
from ke_weights.gradients import layer_gradients
from ke_weights.hooks import frozen_module
from ke_weights.rewrites import Rewrite
from ke_weights.scored_tokens import ScoredTokens, scored_tokens
from ke_weights.subject import encode, target_ids

CHUNK = 16
"""Edits whose gradients are computed in one pass."""


@frozen(eq=False)
class GradientFactors:
    """Factors of one matrix, for the M tokens with non-zero factors; float32 or better.

    ``x`` [M, in], ``g`` [M, out], and ``row`` [M], the token's row in the batch.
    """

    x: Tensor
    g: Tensor
    row: Tensor

    def scaled(self, weights: Tensor) -> GradientFactors:
        """Return the factors of the weighted sum of the rows' losses; ``weights`` [rows or more]."""
        return GradientFactors(self.x, self.g * weights[self.row, None].to(self.g), self.row)


def gradient_factors(
    module: nn.Module,
    names: Sequence[str],
    batch: ScoredTokens,
    unscored: tuple[Tensor, Tensor] | None = None,
    *,
    answers: bool = False,
) -> tuple[dict[str, GradientFactors], Tensor, Tensor]:
    """Return the factors of the sum of the rows' losses, each row's loss [rows], and all logits, both detached.

    ``unscored``: ids and mask of rows that are run in the same pass and not scored; their logits come last.
    ``answers``: only the positions that predict an answer token. Gradients must be enabled and parameters frozen.
    """
    made, (rows, width), device = layer_gradients(module, names, batch, unscored), batch.ids.shape, batch.ids.device
    wanted = batch.mask.bool()
    if answers:
        wanted = torch.zeros_like(wanted).index_put((batch.row, batch.column), wanted.new_ones(()))
    found = {}
    for name in names:
        x, g = made.inputs[name][:rows, :width], made.gradients[name][:rows, :width]  # on overflow, others have NaN
        keep = wanted.to(x.device) & (x != 0).any(dim=-1) & (g != 0).any(dim=-1)
        # If the model is on several devices, factors move to the device of its input.
        found[name] = GradientFactors(x[keep].to(device), g[keep].to(device), keep.nonzero()[:, 0].to(device))
    return found, made.losses, made.logits


def edit_factors(
    model: HFModel, names: Sequence[str], rewrites: Sequence[Rewrite], *, answers: bool = False
) -> tuple[dict[str, GradientFactors], Tensor]:
    """Return the factors of each layer over all edits, whose ``row`` is the edit, and each edit's loss before editing.

    The loss of an edit is the mean over its target's tokens, and the gradient is that of the sum over edits.
    """
    tokenizer = model.tokenizer
    rows = [(encode(tokenizer, made.prompt)[0], target_ids(tokenizer, made.prompt, made.target)) for made in rewrites]
    seen: dict[str, list[GradientFactors]] = {name: [] for name in names}
    losses: list[Tensor] = []
    with frozen_module(model.module), torch.enable_grad():
        for start in range(0, len(rows), CHUNK):
            batch = scored_tokens(rows[start : start + CHUNK], model.device)
            found, loss, _logits = gradient_factors(model.module, names, batch, answers=answers)
            losses.append(loss)
            for name, part in found.items():
                seen[name].append(GradientFactors(part.x, part.g, part.row + start))
    return {name: _joined(parts) for name, parts in seen.items()}, torch.cat(losses)


def _joined(parts: Sequence[GradientFactors]) -> GradientFactors:
    return GradientFactors(*(torch.cat([getattr(part, field) for part in parts]) for field in ("x", "g", "row")))
