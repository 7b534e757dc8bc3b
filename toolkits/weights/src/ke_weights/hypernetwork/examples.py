"""The rows of one training step. Samples depend on the seed and the edit's number only."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Literal

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadData, UnsupportedEdit
from ke_weights.rewrites import rewrite
from ke_weights.scored_tokens import ScoredTokens, scored_tokens
from ke_weights.subject import encode, padded, target_ids
from ke_weights.trainers import TrainingExample

Wordings = Literal["paraphrases", "all"]
Row = tuple[list[int], tuple[int, ...]]


@frozen(eq=False)
class EditBatch:
    """The edits of one step: ``inner`` are the edits, ``outer`` the wordings that they are tested on.

    ``ids``, ``mask`` [edits, T]: other text, one row per edit.
    """

    inner: ScoredTokens
    outer: ScoredTokens
    ids: Tensor
    mask: Tensor


@frozen(kw_only=True)
class HypernetworkExample:
    """A training example; the edit's loss is computed on one of its ``wordings``."""

    id: str
    prompt: str
    target: str
    wordings: tuple[str, ...]
    locality: tuple[str, ...]


def usable_examples(examples: Sequence[TrainingExample], wordings: Wordings) -> tuple[HypernetworkExample, ...]:
    """Return the examples that have a prompt and a target. Raises BadData if none has.

    An example without paraphrases is tested on its own prompt.
    """
    found = []
    for example in examples:
        try:
            made = rewrite(example.edit)
        except UnsupportedEdit:
            continue
        own = (made.prompt,) if wordings == "all" or not example.paraphrases else ()
        found.append(
            HypernetworkExample(
                id=made.id,
                prompt=made.prompt,
                target=made.target,
                wordings=(*own, *(text.rstrip() for text in example.paraphrases)),
                locality=example.locality,
            )
        )
    if not found:
        raise BadData(
            f"none of {len(examples)} examples has a prompt and a target to edit with",
            hint="provide prompt, subject and target; statements are split by the clozes of --without DATASET",
        )
    return tuple(found)


class ExampleSampler:
    """Samples examples in a new order per epoch, with a wording and a piece of other text for each."""

    def __init__(
        self,
        examples: Sequence[HypernetworkExample],
        documents: Sequence[str],
        tokenizer: Any,
        *,
        length: int,
        seed: int,
    ) -> None:
        self.examples, self.documents, self.tokenizer = examples, documents, tokenizer
        self.length, self.seed = length, seed
        self._order: tuple[int, list[int]] = (-1, [])

    def batch(self, start: int, count: int, device: torch.device) -> EditBatch:
        """Return the batch of ``count`` examples from number ``start``, counted over all epochs."""
        inner, outer, other = [], [], []
        for number in range(start, start + count):
            example = self._example(number)
            rng = Random(f"{self.seed}/wording/{number}")  # noqa: S311  not for security
            inner.append(self._row(example, example.prompt))
            outer.append(self._row(example, rng.choice(example.wordings)))
            text = rng.choice(example.locality or self.documents)
            other.append(encode(self.tokenizer, text)[0][: self.length])
        ids, mask = padded(other, device)
        return EditBatch(scored_tokens(inner, device), scored_tokens(outer, device), ids, mask)

    def _example(self, number: int) -> HypernetworkExample:
        time, place = divmod(number, len(self.examples))
        if self._order[0] != time:
            order = list(range(len(self.examples)))
            Random(f"{self.seed}/order/{time}").shuffle(order)  # noqa: S311  as above
            self._order = (time, order)
        return self.examples[self._order[1][place]]

    def _row(self, example: HypernetworkExample, prompt: str) -> Row:
        return encode(self.tokenizer, prompt)[0], target_ids(self.tokenizer, prompt, example.target)
