"""Log-probabilities of given continuations: one pass over each, its prompt's beginning shared."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field
from torch import Tensor

from ke_core.models.local.forward import Forward, Prefix
from ke_core.models.local.memory import BatchSize, first_pass, out_of_memory


@define(eq=False)
class Scoring:
    """A continuation to be scored: ``ids`` of prompt and continuation, the last ``count`` of which are scored."""

    ids: Sequence[int]
    count: int
    logprob: float = field(default=0.0, init=False)
    error: Exception | None = field(default=None, init=False)

    def take(self, logits: Tensor) -> None:
        """Read the sum off ``logits`` [at least count, vocabulary], which end where the last token is foretold."""
        if not self.count:
            return
        scored = torch.log_softmax(logits[-self.count :].float(), dim=-1)
        wanted = torch.tensor(self.ids[-self.count :], device=scored.device)
        self.logprob = float(scored.gather(1, wanted[:, None]).sum())


def score_rows(forward: Forward, prefix: Prefix, size: BatchSize, row_bytes: int, rows: Sequence[Scoring]) -> None:
    """Score ``rows``, which begin with ``prefix``; one that does not fit even alone gets an ``error``."""
    waiting = sorted(rows, key=lambda row: len(row.ids), reverse=True)
    begin = len(prefix.ids)
    while waiting:
        together = first_pass([len(row.ids) - begin for row in waiting], size.device)
        some = waiting[: min(size.rows(row_bytes), together)]
        try:
            # The last token is foretold, never read.
            fed = [row.ids[begin:-1] for row in some]
            logits, _state = forward.prefill(prefix, fed, keep=max(row.count for row in some))
        except Exception as error:
            if not out_of_memory(error):
                raise
            size.failed(len(some))
            if len(some) > 1:
                continue
            some[0].error = error
        else:
            for row, its in zip(some, logits, strict=True):
                row.take(its)
        waiting = waiting[len(some) :]
