"""The next token of each row: the most probable one, or one sampled with the row's own generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from attrs import define, field
from torch import Tensor

from ke_core.plugin import Generate, NotFinite
from ke_plugin_hf.decoding.float64 import double

HALF_RANGE = "float16 numbers end at 65504: if that is the cause, load the model in bfloat16 or float32"


@define(eq=False)
class Sampler:
    """Chooses tokens for one row. A sampled row depends on its request's seed only (None counts as 0)."""

    request: Generate
    _generator: torch.Generator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.request.seed or 0)

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is used."""
        return self.request.temperature == 0

    def draw(self, logits: Tensor) -> int:
        """Sample one token from ``logits`` [vocabulary], by inverting the cumulative distribution in float64."""
        logits = double(logits)
        ids: Tensor | None = None
        if 0 < self.request.top_k < len(logits):
            logits, ids = logits.topk(self.request.top_k)
        sums = torch.softmax(logits.cpu() / self.request.temperature, dim=-1).cumsum(0)
        drawn = torch.rand((), generator=self._generator, dtype=torch.float64) * sums[-1]
        at = min(int(torch.searchsorted(sums, drawn, right=True)), len(sums) - 1)
        return at if ids is None else int(ids[at])


def choose(choosers: Sequence[Sampler], logits: Tensor) -> Iterator[int | NotFinite]:
    """Return the next token of every row, or None; ``logits`` [B, vocabulary].

    Rows are processed one by one: if memory runs out, later rows have not advanced their generators.
    """
    for chooser, token, row in zip(choosers, _most_probable(logits), logits, strict=True):
        if token is None:
            yield NotFinite("the logits of the next token are not finite", hint=HALF_RANGE)
        else:
            yield token if chooser.greedy else chooser.draw(row)


def _most_probable(logits: Tensor) -> list[int | None]:
    """Return the token of the largest logit of every row, or None if that is NaN or infinite.

    The largest logit reveals the others: NaN counts as the largest number, and logits of minus infinity, which some
    models have, are valid. One transfer from the device.
    """
    top, tokens = logits.max(-1)
    return [token if token >= 0 else None for token in tokens.where(top.isfinite(), -1).tolist()]
