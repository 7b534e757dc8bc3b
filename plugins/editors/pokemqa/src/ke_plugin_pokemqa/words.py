"""Which words two sentences share, the rare ones counting more: what a sentence vector forgets about names."""

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
    """``counts``: in how many of ``texts`` texts each bucket of words was seen, int32 [BUCKETS]."""

    counts: NDArray[np.int32]
    texts: int

    def overlap(self, edits: Sequence[str], questions: Sequence[str]) -> NDArray[np.float32]:
        """Of each pair, float32 [n, FEATURES] in [0, 1].

        The share of the question's words that the edit has, the share of the edit's that the question has, and the
        heaviest word of the question that the edit lacks; each word weighs log(N / count).
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
        """From 0, a word of every text, to 1, one of none."""
        return 1 - math.log(int(self.counts[bucket]) + 1) / math.log(self.texts + 2)


def buckets(text: str) -> set[int]:
    """The words of a text, letter case aside, by number; the same in every process."""
    return {zlib.crc32(word.encode()) % BUCKETS for word in WORD.findall(text.casefold())}


def counted(texts: Iterable[str]) -> WordCounts:
    """The words of those texts."""
    counts, number = np.zeros(BUCKETS, dtype=np.int32), 0
    for text in texts:
        counts[list(buckets(text))] += 1
        number += 1
    return WordCounts(counts=counts, texts=number)
