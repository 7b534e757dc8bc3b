"""The loss of an edit (WISE equations 6 and 8), over rows of the edit and an unrelated text.

    L = -log P(target | row) + w (max(0, a_out - alpha) + max(0, beta - a_in) + max(0, gamma - (a_in - a_out)))

a_in is the routing score of a row with the edit, a_out that of the unrelated text. Every term is a mean over the rows.
The weight w is 1 in the paper. Scores scale with the hidden states of a model, and -log P does not: w = 20 / beta makes
the margin terms as large as with the published beta of 20.
As released, the mean of a margin term runs over the rows that violate it, and the likelihood of t tokens is divided by
t + 1.
"""

from __future__ import annotations

from attrs import frozen
from torch import Tensor


@frozen(kw_only=True)
class Margins:
    """The activations that training aims at: at most ``alpha`` out of scope, ``beta`` in scope, ``gamma`` apart.

    ``weight``: of the three terms in the loss.
    """

    alpha: float
    beta: float
    gamma: float
    weight: float


def wise_loss(nll: Tensor, inside: Tensor, outside: Tensor, margins: Margins, *, tokens: int, released: bool) -> Tensor:
    """Return L, a scalar, of -log P per token [R], a_in [R] and a_out [1]. ``tokens``: t, the target's."""
    likelihood = nll.mean() * (tokens / (tokens + 1) if released else 1)
    terms = (outside - margins.alpha, margins.beta - inside, margins.gamma - (inside - outside))
    return likelihood + margins.weight * sum((hinge(term, violating=released) for term in terms), nll.new_zeros(()))


def hinge(term: Tensor, *, violating: bool) -> Tensor:
    """Return the mean of max(0, term) over all rows, or over the ``violating`` ones."""
    positive = term.clamp(min=0)
    return positive.sum() / (term > 0).sum().clamp(min=1) if violating else positive.mean()
