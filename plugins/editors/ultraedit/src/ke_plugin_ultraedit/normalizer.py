"""Lifelong normalization (UltraEdit section 3): running mean and variance of the features [h; g] of answer tokens.

All linear maps of one shape share their statistics, which keep counting from edit to edit.
"""

from __future__ import annotations

from typing import Self

import torch
from attrs import frozen
from torch import Tensor

EPSILON = torch.finfo(torch.float32).eps
"""Added to the standard deviation, as released."""


@frozen(kw_only=True, eq=False)
class RunningStatistics:
    """Of all features so far: ``count``, ``mean`` [n], and ``squares`` [n], the sum of squared deviations; float64."""

    count: int
    mean: Tensor
    squares: Tensor

    @classmethod
    def empty(cls, features: Tensor) -> Self:
        """Return the statistics of no features; ``features`` [T, n] sets the size and the device."""
        zero = torch.zeros_like(features[0])
        return cls(count=0, mean=zero, squares=zero)

    def updated(self, features: Tensor, *, released: bool) -> Self:
        """Add ``features`` [T, n] (Welford 1962).

        ``released``: add T times the unbiased variance of the batch, which is T / (T - 1) times its squared deviations;
        T is at least 2.
        """
        features, size = features.to(self.mean.device), len(features)
        count, mean = self.count + size, features.mean(0)
        apart = mean - self.mean
        squares = ((features - mean) ** 2).sum(0) * (size / (size - 1) if released else 1)
        return type(self)(
            count=count,
            mean=self.mean + apart * (size / count),
            squares=self.squares + squares + apart**2 * (self.count * size / count),
        )

    def normalized(self, features: Tensor) -> Tensor:
        """Return (features - mean) / standard deviation, [T, n]."""
        features = features.to(self.mean.device)
        deviation = (self.squares / max(self.count - 1, 1)).sqrt()
        return (features - self.mean) / (deviation + EPSILON)
