"""Training data of the detector: edits with questions, split by record, and sampled negatives.

Samples depend on the seed and the number of the step only, so a resumed training continues with the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import BadData
from ke_weights.trainers import TrainingExample

Numbers = NDArray[np.int64]
TRAIN_FRACTION = 0.8
"""Fraction of the records to train on; the rest validates (Gu et al. 2024: 80/20)."""


@frozen(kw_only=True, eq=False)
class ScopeExamples:
    """The examples as indices.

    ``texts``: each distinct statement and question once. ``edits`` [R]: the statement of each record. Pairs: ``record``
    [P] and ``question`` [P], a text. ``family`` [R]: records that share a question are one family, e.g. "the capital of
    Mali" with two capitals: each question is in scope of the other record. ``train``, ``valid``: records.
    """

    texts: tuple[str, ...]
    edits: Numbers
    record: Numbers
    question: Numbers
    family: Numbers
    train: Numbers
    valid: Numbers

    def pairs_of(self, records: Numbers) -> Numbers:
        """Return the pairs of those records, in order."""
        return np.flatnonzero(np.isin(self.record, records))


def scope_examples(examples: Sequence[TrainingExample], seed: int, *, validate_on: int = 1) -> ScopeExamples:
    """Return the examples that have a question, as indices. Raises BadData if there are too few.

    ``validate_on``: minimum number of families to validate on; two if a validation question needs another's for its
    negatives.
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
    families, minimum = len(np.unique(family)), _min_families(validate_on)
    if families < minimum:
        raise BadData(
            f"{len(usable)} of {len(examples)} examples have questions, about {families} facts: too few to train and "
            "validate",
            hint=f"provide at least {minimum} edits that share no question, with several questions each",
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
    """Return the order of ``count`` items in one epoch."""
    return np.random.default_rng([seed, part, epoch]).permutation(count)


def negatives(families: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    """Sample places of the batch, int [B, count], with replacement and never of the row's own family."""
    if len(np.unique(families)) < 2:
        raise BadData(
            "all examples of a batch are about one fact, so it has no negatives", hint="provide more varied edits"
        )
    sampled = rng.integers(len(families), size=(len(families), count))
    while (wrong := families[sampled] == families[:, None]).any():
        sampled[wrong] = rng.integers(len(families), size=int(wrong.sum()))
    return sampled


def _families(record: Numbers, question: Numbers, records: int) -> Numbers:
    """Return the smallest record that each record is connected to by shared questions."""
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
    """Split the records for training and validation; a family stays on one side."""
    names = np.random.default_rng([seed, 0]).permutation(np.unique(family))
    train = np.isin(family, names[: _trained(len(names))])
    return np.flatnonzero(train), np.flatnonzero(~train)


def _min_families(validate_on: int) -> int:
    """Return the minimum number of families: two to train on, with each other's questions as negatives, and these."""
    return next(number for number in count(2) if _trained(number) >= 2 and number - _trained(number) >= validate_on)


def _trained(families: int) -> int:
    return round(TRAIN_FRACTION * families)
