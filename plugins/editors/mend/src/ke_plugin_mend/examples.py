"""From training examples to the rows of one step. What is drawn depends on the edit's number and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Literal

import torch
from attrs import frozen

from ke_core.plugin import BadData, TrainingExample, UnsupportedEdit
from ke_plugin_mend.factors import scored
from ke_plugin_mend.objective import TrainingBatch
from ke_weights.plugin import encode, padded, rewrite, target_ids

Wordings = Literal["paraphrases", "all"]
Row = tuple[list[int], tuple[int, ...]]


@frozen(kw_only=True)
class MendExample:
    """An example as the network is taught it: ``wordings`` are what L_e is taken on."""

    id: str
    prompt: str
    target: str
    wordings: tuple[str, ...]
    locality: tuple[str, ...]


def lessons_of(examples: Sequence[TrainingExample], wordings: Wordings) -> tuple[MendExample, ...]:
    """Those examples that have a prompt and a target. Raises BadData if none has.

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
            MendExample(
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
            hint="bare statements are taken apart by the clozes of --without DATASET, or give prompt, subject, target",
        )
    return tuple(found)


class ExampleSampler:
    """Lessons in a new order each time through, with a wording and a piece of other text drawn for each."""

    def __init__(
        self,
        lessons: Sequence[MendExample],
        documents: Sequence[str],
        tokenizer: Any,
        *,
        context: int,
        length: int,
        seed: int,
    ) -> None:
        self.lessons, self.documents, self.tokenizer = lessons, documents, tokenizer
        self.context, self.length, self.seed = context, length, seed
        self._order: tuple[int, list[int]] = (-1, [])

    def deal(self, start: int, count: int, device: torch.device) -> TrainingBatch:
        """The lessons numbered from ``start`` on, counted over all times through."""
        inner, outer, other = [], [], []
        for number in range(start, start + count):
            lesson = self._lesson(number)
            draw = Random(f"{self.seed}/wording/{number}")  # noqa: S311  not for secrets
            inner.append(self._row(lesson, lesson.prompt))
            outer.append(self._row(lesson, draw.choice(lesson.wordings)))
            text = draw.choice(lesson.locality or self.documents)
            other.append(encode(self.tokenizer, text)[0][: self.length])
        ids, mask = padded(other, device)
        return TrainingBatch(scored(inner, device), scored(outer, device), ids, mask)

    def _lesson(self, number: int) -> MendExample:
        time, place = divmod(number, len(self.lessons))
        if self._order[0] != time:
            order = list(range(len(self.lessons)))
            Random(f"{self.seed}/order/{time}").shuffle(order)  # noqa: S311  as above
            self._order = (time, order)
        return self.lessons[self._order[1][place]]

    def _row(self, lesson: MendExample, prompt: str) -> Row:
        ids, target = encode(self.tokenizer, prompt)[0], target_ids(self.tokenizer, prompt, lesson.target)
        if len(ids) + len(target) > self.context:
            raise BadData(
                f"training example {lesson.id} has {len(ids) + len(target)} tokens, and {self.context} fit",
                hint="take it out of the data",
            )
        return ids, target
