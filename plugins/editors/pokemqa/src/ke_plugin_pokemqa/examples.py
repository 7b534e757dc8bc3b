"""What the detector learns from: edits with questions, split by record, and negatives drawn for each step.

Everything that is drawn depends on the seed and the number of the step, so that a training which is resumed goes on
with the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import BadData, TrainingExample

Numbers = NDArray[np.int64]
TRAINED = 0.8
"""Share of the records that is trained on; the rest validates (Gu et al. 2024: 80/20)."""


@frozen(kw_only=True, eq=False)
class ScopeExamples:
    """``texts``: each distinct statement and question once. ``edits`` [R]: the statement of each record.

    Pairs: ``record`` [P] and ``question`` [P], a text. ``family`` [R]: records that share a question belong together,
    as "the capital of Mali" with two capitals: one's question is in scope of the other. ``train``, ``valid``: records.
    """

    texts: tuple[str, ...]
    edits: Numbers
    record: Numbers
    question: Numbers
    family: Numbers
    train: Numbers
    valid: Numbers

    def pairs_of(self, records: Numbers) -> Numbers:
        """The pairs of those records, in order."""
        return np.flatnonzero(np.isin(self.record, records))


def lessons_of(examples: Sequence[TrainingExample], seed: int, *, validate_on: int = 1) -> ScopeExamples:
    """Examples that have a question, as numbers. Raises BadData where there are too few of them to learn from.

    ``validate_on``: how many families that takes; two where a validation question needs another's for its negatives.
    """
    usable = [example for example in examples if example.paraphrases]
    place: dict[str, int] = {}
    for example in usable:
        for text in (example.edit.statement, *example.paraphrases):
            place.setdefault(text, len(place))
    pairs = [
        (number, place[text]) for number, example in enumerate(usable) for text in dict.fromkeys(example.paraphrases)
    ]
    record, question = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    family = _families(record, question, len(usable))
    families, least = len(np.unique(family)), _least(validate_on)
    if families < least:
        raise BadData(
            f"{len(usable)} of {len(examples)} examples have questions, on {families} facts: too few to train and to "
            "validate on",
            hint=f"give edits with several questions each, {least} that share none at the least",
        )
    train, valid = _split(family, seed)
    return ScopeExamples(
        texts=tuple(place),
        edits=np.array([place[example.edit.statement] for example in usable], dtype=np.int64),
        record=record,
        question=question,
        family=family,
        train=train,
        valid=valid,
    )


def order(count: int, epoch: int, *, seed: int, part: int) -> Numbers:
    """The order of ``count`` things in one time through."""
    return np.random.default_rng([seed, part, epoch]).permutation(count)


def negatives(families: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    """Places of the batch, int [B, count], drawn with replacement and redrawn until none is of the row's family."""
    if len(np.unique(families)) < 2:
        raise BadData("a whole batch asks about one fact, so that it has no negatives", hint="give more varied edits")
    drawn = rng.integers(len(families), size=(len(families), count))
    while (wrong := families[drawn] == families[:, None]).any():
        drawn[wrong] = rng.integers(len(families), size=int(wrong.sum()))
    return drawn


def _families(record: Numbers, question: Numbers, records: int) -> Numbers:
    """The smallest record that each one is linked to by shared questions."""
    parent = list(range(records))

    def root(of: int) -> int:
        while parent[of] != of:
            parent[of] = of = parent[parent[of]]
        return of

    first: dict[int, int] = {}
    for of, text in zip(record.tolist(), question.tolist(), strict=True):
        one, other = root(first.setdefault(text, of)), root(of)
        parent[max(one, other)] = min(one, other)
    return np.array([root(of) for of in range(records)], dtype=np.int64)


def _split(family: Numbers, seed: int) -> tuple[Numbers, Numbers]:
    """Records to train on and to validate on; a family is not parted."""
    names = np.random.default_rng([seed, 0]).permutation(np.unique(family))
    train = np.isin(family, names[: _trained(len(names))])
    return np.flatnonzero(train), np.flatnonzero(~train)


def _least(validate_on: int) -> int:
    """How many families it takes: two to train on, each with the other's questions for negatives, and those."""
    return next(number for number in count(2) if _trained(number) >= 2 and number - _trained(number) >= validate_on)


def _trained(families: int) -> int:
    return round(TRAINED * families)
