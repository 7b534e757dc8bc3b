"""The scope classifier: how probably a question is in scope of an edit (section 3). Imports no torch.

    s(z, x) = exp(-sum_j w_j (e(z)_j - e(x)_j)^2)          w_j > 0 learned, e a frozen sentence encoder

z is the input of the edit, without its target: two edits of one prompt have the same scope, whatever their targets.
With w = 1 this is the published form on the encoder's own vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ke_core.plugin import Edit, Encoder
from ke_memory.plugin import FactMemory, best_rows

Vectors = NDArray[np.float32]


def scope_key(edit: Edit) -> str:
    """Return the input of ``edit``: its prompt, else its question, else the whole statement."""
    return edit.prompt or edit.question or edit.statement


def scopes(keys: Vectors, queries: Vectors, weights: Vectors) -> Vectors:
    """Return s of each key [n, d] for each query [m, d], as [m, n], with |a - b|^2 = |a|^2 + |b|^2 - 2 a.b."""
    a, b = keys * np.sqrt(weights), queries * np.sqrt(weights)
    squared = (a * a).sum(1)[None] + (b * b).sum(1)[:, None] - 2 * (b @ a.T)
    found: Vectors = np.exp(-np.maximum(squared, 0))
    return found


class WeightedScopeMemory(FactMemory):
    """The inputs of the edits. The score of an edit is its scope s; ``weights`` [d] are w."""

    def __init__(self, encoder: Encoder, weights: Vectors) -> None:
        self.weights = weights
        super().__init__(encoder)

    def compare(self, queries: Vectors) -> Vectors:
        """Return s of each row for each query, [queries, rows]."""
        return scopes(self.vectors, queries, self.weights)

    def best(self, scores: Vectors, k: int) -> Sequence[int]:
        """Return the rows of the ``k`` highest scores, and sort equal scores from the newest to the oldest."""
        return [len(scores) - 1 - row for row in best_rows(scores[::-1], k)]
