"""The two-stage scope detector over a memory of statements (Gu et al. 2024, section 3.2). Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import Encoder, Hit
from ke_memory.plugin import FactMemory, best_rows

Vectors = NDArray[np.float32]
HALF = 0.5


@frozen(kw_only=True, eq=False)
class Side:
    """Texts and their vectors [n, d], for one side of several pairs."""

    texts: Sequence[str]
    vectors: Vectors


@frozen(kw_only=True, eq=False)
class Detector:
    """Pre-detector p(e, q) = exp(-scale^2 |e + offset - q|^2) on the vectors of ``encoder``, and disambiguator.

    ``offset``: [d]. ``judge``: the disambiguator's probabilities [n] that each edit answers each question. ``confirm``:
    use the disambiguator for a single candidate too; the published code does not.
    """

    encoder: Encoder
    scale: float
    offset: Vectors
    judge: Callable[[Side, Side], Vectors]
    confirm: bool


def probabilities(edits: Vectors, questions: Vectors, scale: float, offset: Vectors) -> Vectors:
    """Return p(e, q), [questions, edits], with |a - b|^2 = |a|^2 + |b|^2 - 2 a.b."""
    own = (edits * edits).sum(1) + 2 * (edits @ offset) + float(offset @ offset)
    asked = (questions * questions).sum(1) - 2 * (questions @ offset)
    squared = np.maximum(own[None] + asked[:, None] - 2 * (questions @ edits.T), 0)
    found: Vectors = np.exp(-(np.float32(scale) ** 2) * squared)
    return found


class ScopeMemory(FactMemory):
    """A memory that returns the one edit in scope of a question, or none. Statements are embedded once."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        super().__init__(detector.encoder)

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """Return at most one edit per text, with the last computed probability as its score. ``k`` must be 1.

        Without a candidate (p >= 1/2): none. A single candidate: that edit, unless the detector confirms single
        candidates. Otherwise the candidate with the highest disambiguator probability, if that is at least 1/2; the
        earliest among equals.
        """
        assert k == 1, "one edit is in scope, or none"
        if not self or not texts:
            return [() for _ in texts]
        asked = Side(texts=texts, vectors=self.encoder.embed(texts))
        return [
            hits
            for part, near in self.scores(asked.vectors, hidden)
            for hits in self._in_scope(Side(texts=texts[part], vectors=asked.vectors[part]), near)
        ]

    def compare(self, queries: Vectors) -> Vectors:
        """Return the pre-detector's probability for every statement."""
        return probabilities(self.vectors, queries, self.detector.scale, self.detector.offset)

    def _in_scope(self, asked: Side, near: Vectors) -> list[tuple[Hit, ...]]:
        candidates = [np.flatnonzero(line >= HALF) for line in near]
        ambiguous = [at for at, rows in enumerate(candidates) if len(rows) > (not self.detector.confirm)]
        judged = iter(self._judged(asked, ambiguous, candidates))
        return [
            self._best(rows, next(judged) if at in set(ambiguous) else near[at, rows])
            for at, rows in enumerate(candidates)
        ]

    def _judged(self, asked: Side, ambiguous: Sequence[int], candidates: Sequence[NDArray[np.int64]]) -> list[Vectors]:
        """Return the disambiguator's probabilities for all candidates of these questions, in one call."""
        if not ambiguous:
            return []
        rows = np.concatenate([candidates[at] for at in ambiguous])
        whose = np.repeat(ambiguous, [len(candidates[at]) for at in ambiguous])
        edits = Side(texts=[self.text(row) for row in rows], vectors=self.vectors[rows])
        questions = Side(texts=[asked.texts[at] for at in whose], vectors=asked.vectors[whose])
        probable = self.detector.judge(edits, questions)
        return np.split(probable, np.cumsum([len(candidates[at]) for at in ambiguous])[:-1])

    def _best(self, rows: NDArray[np.int64], probable: Vectors) -> tuple[Hit, ...]:
        best = best_rows(probable, 1)
        return tuple(self.hit(int(rows[at]), probable[at]) for at in best if probable[at] >= HALF)


class NearestMemory(FactMemory):
    """The baseline: the nearest statement, if its score reaches ``threshold``."""

    def __init__(self, encoder: Encoder, threshold: float) -> None:
        self.threshold = threshold
        super().__init__(encoder)

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """Return at most ``k`` edits per text, best first."""
        found = super().search(texts, k=k, hidden=hidden)
        return [tuple(hit for hit in hits if hit.score >= self.threshold) for hits in found]
