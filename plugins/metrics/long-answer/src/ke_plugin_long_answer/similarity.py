"""Similarity of a generated text and a reference.

Let c be the words of the candidate, r those of the reference, and L the length of their longest common subsequence.
ROUGE-L (Lin 2004, equations 2 to 4, beta = 1): P = L / |c|, R = L / |r|, F1 = 2 P R / (P + R).
ROUGE-N (equation 1): the same with the n-grams of both texts, and the number that both contain in place of L.

BERTScore (Zhang et al. 2020, equation 1), for token vectors x of the reference and y of the candidate, of length 1:
R = mean over x of max over y of x.y, P = mean over y of max over x of x.y, F1 = 2 P R / (P + R).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_benchmarks import ngram_counts
from ke_core.plugin import words


@frozen
class Overlap:
    """Precision and recall of a candidate."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Their harmonic mean; 0 if their sum is not positive."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both > 0 else 0.0


def rouge_l(candidate: str, reference: str) -> Overlap:
    """Return ROUGE-L over words. Both are 0 if a text has no words."""
    said, wanted = words(candidate), words(reference)
    if not said or not wanted:
        return Overlap(0.0, 0.0)
    common = common_subsequence(said, wanted)
    return Overlap(common / len(said), common / len(wanted))


def rouge_n(candidate: str, reference: str, n: int) -> Overlap:
    """Return ROUGE-N over words, with ``n`` words in an n-gram. Both are 0 if a text has no n-gram."""
    said, wanted = ngram_counts(words(candidate), n), ngram_counts(words(reference), n)
    if not said or not wanted:
        return Overlap(0.0, 0.0)
    common = (said & wanted).total()
    return Overlap(common / said.total(), common / wanted.total())


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    The row of the usual table is a bit vector (Hyyrö 2004): a 0 at place i means that the length grows there.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(one)) - 1
    row = full
    for word in other:
        matching = row & places.get(word, 0)
        row = ((row + matching) | (row - matching)) & full
    return len(one) - row.bit_count()


def bertscore(candidate: Any, reference: Any) -> Overlap:
    """Return BERTScore of token vectors [n, d] and [m, d]: no weights by frequency, no rescaling.

    Both are 0 if a text has no tokens.
    """
    if not len(candidate) or not len(reference):
        return Overlap(0.0, 0.0)
    cosines = candidate @ reference.T
    return Overlap(float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean()))
