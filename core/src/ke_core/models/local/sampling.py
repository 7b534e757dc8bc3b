"""The next token of each row: the likeliest, or one drawn with the row's own generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from attrs import define, field
from torch import Tensor

from ke_core.models.local.float64 import double
from ke_core.requests import Generate


@define(eq=False)
class Chooser:
    """Chooses for one row. A sampled row depends on its request's seed alone (None counts as 0)."""

    request: Generate
    _generator: torch.Generator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.request.seed or 0)

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.request.temperature == 0

    def draw(self, logits: Tensor) -> int:
        """One token from ``logits`` [vocabulary], by inverting the distribution's sum in float64."""
        logits = double(logits)
        ids: Tensor | None = None
        if 0 < self.request.top_k < len(logits):
            logits, ids = logits.topk(self.request.top_k)
        sums = torch.softmax(logits.cpu() / self.request.temperature, dim=-1).cumsum(0)
        drawn = torch.rand((), generator=self._generator, dtype=torch.float64) * sums[-1]
        at = min(int(torch.searchsorted(sums, drawn, right=True)), len(sums) - 1)
        return at if ids is None else int(ids[at])


def choose(choosers: Sequence[Chooser], logits: Tensor) -> Iterator[int]:
    """The next token of every row; ``logits`` [B, vocabulary].

    One by one: where memory runs out, a row whose turn did not come has drawn no random number.
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    for chooser, token, row in zip(choosers, tokens, logits, strict=True):
        yield token if chooser.greedy else chooser.draw(row)
