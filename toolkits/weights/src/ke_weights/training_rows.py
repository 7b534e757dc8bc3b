"""Rows that train a layer by gradients: the blocks below it, which do not change, run once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from torch import Tensor

from ke_plugin_hf.layer_calls import prompt_lengths
from ke_weights.hooks import forward
from ke_weights.modules import ModuleMap
from ke_weights.scored_tokens import ScoredTokens, scored_tokens
from ke_weights.subject import SubjectTokens, padded
from ke_weights.tail import Tail, open_tail


@frozen(kw_only=True, eq=False)
class TrainingRows:
    """Ids and mask [R, T] of all rows, their scored targets, and the blocks from the trained layer on.

    Complete rows are kept, because every key affects later tokens. ``tail`` is None if the whole model must run: it
    differs from the module map (norms after the MLP, capped logits), or adaptors must see whole passes.
    """

    modules: ModuleMap
    ids: Tensor
    mask: Tensor
    scored: ScoredTokens
    tail: Tail | None

    def logits(self) -> Tensor:
        """Return the logits at the scored positions, [S, V]; differentiable."""
        if self.tail is None:
            with prompt_lengths(self.scored.prompts):
                found: Tensor = forward(self.modules.module, self.ids, self.mask).logits
            return self.scored.pick(found).to(self.modules.dtype)
        return self.modules.logits(self.scored.pick(self.tail.run(self.tail.hidden)))


def training_rows(
    modules: ModuleMap,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    layer: int,
    *,
    forced: bool = True,
    whole: bool = False,
) -> TrainingRows:
    """Read rows of (prompt ids, target ids) up to block ``layer``, the lowest trained one.

    ``forced``: as for ``scored_tokens``. ``whole``: always run the whole model.
    """
    inputs = [(*prompt, *target[: -1 if forced else 0]) for prompt, target in rows]
    ids, mask = padded(inputs, modules.device)
    tail = None
    if not (whole or modules.obstacle):
        tail = open_tail(modules, [SubjectTokens(row, 0) for row in inputs], layer - 1)
    scored = scored_tokens(rows, modules.device, forced=forced)
    return TrainingRows(modules=modules, ids=ids, mask=mask, scored=scored, tail=tail)
