"""Word overlap of two sentences, with rare words weighted more: sentence embeddings represent names badly."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

WORD = re.compile(r"\w+")
BUCKETS = 2**16
FEATURES = 3


@frozen(kw_only=True, eq=False)
class WordCounts:
    """``counts``: number of texts that contain a word of each bucket, int32 [BUCKETS]; ``texts``: number of texts."""

    counts: NDArray[np.int32]
    texts: int

    def overlap(self, edits: Sequence[str], questions: Sequence[str]) -> NDArray[np.float32]:
        """Return the features of each pair, float32 [n, FEATURES] in [0, 1].

        The fraction of the question's words that the edit has, the fraction of the edit's words that the question has,
        and the largest weight of a word of the question that the edit lacks. The weight of a word is log(N / count).
        """
        found = [self._pair(edit, question) for edit, question in zip(edits, questions, strict=True)]
        return np.array(found, dtype=np.float32).reshape(len(found), FEATURES)

    def _pair(self, edit: str, question: str) -> tuple[float, float, float]:
        own, asked = buckets(edit), buckets(question)
        shared = sum(map(self._weight, own & asked))
        lacking = [self._weight(word) for word in asked - own]
        return (
            shared / (shared + sum(lacking) or 1.0),
            shared / (sum(map(self._weight, own)) or 1.0),
            max(lacking, default=0.0),
        )

    def _weight(self, bucket: int) -> float:
        """Return 0 for a word of every text, up to 1 for a word of none."""
        return 1 - math.log(int(self.counts[bucket]) + 1) / math.log(self.texts + 2)


def buckets(text: str) -> set[int]:
    """Return the buckets of a text's words, ignoring case; equal in every process."""
    return {zlib.crc32(word.encode()) % BUCKETS for word in WORD.findall(text.casefold())}


def count_words(texts: Iterable[str]) -> WordCounts:
    """Count the words of the texts."""
    counts, number = np.zeros(BUCKETS, dtype=np.int32), 0
    for text in texts:
        counts[list(buckets(text))] += 1
        number += 1
    return WordCounts(counts=counts, texts=number)
