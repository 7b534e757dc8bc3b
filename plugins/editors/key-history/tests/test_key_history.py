"""The history of keys: recursive least squares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ke_core.plugin import Edit
from ke_plugin_hf.testing import Family
from ke_weights.plugin import dense, ridge_update
from ke_weights.testing.reference import D, F, random_covariance, random_problem
from ke_weights.testing.reference_memit import LAYERS, LIMITS, ReferenceMemit, distances

pytestmark = pytest.mark.usefixtures("one_thread")


class ReferenceHistory(ReferenceMemit):
    """Adds S, the sum of 2 K K^T of the earlier batches, with the keys of the model after each batch."""

    weight_of_earlier = 2.0
    sums: dict[int, Tensor]

    def normal(self, layer: int, keys: Tensor) -> Tensor:
        self.sums = getattr(self, "sums", {layer: torch.zeros_like(c) for layer, c in self.covariances.items()})
        return super().normal(layer, keys) + self.sums[layer]

    def finish(self, edits: Sequence[Edit]) -> None:
        for layer in LAYERS:
            keys = self.keys(edits, layer)
            self.sums[layer] += self.weight_of_earlier * keys @ keys.T


class ReferenceSolvedKeys(ReferenceHistory):
    """Adds the keys of the solve, as ENCORE."""

    def normal(self, layer: int, keys: Tensor) -> Tensor:
        found = super().normal(layer, keys)
        self.sums[layer] = self.sums[layer] + self.weight_of_earlier * keys @ keys.T
        return found

    def finish(self, edits: Sequence[Edit]) -> None:
        """The keys are added by ``normal``."""


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_edits_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    options = {"key-history.weight": "2"}
    found = distances("memit+key-history", ReferenceHistory, family, dtype, tmp_path, options)
    assert max(found) < LIMITS[family, dtype]


def test_edits_with_the_keys_of_the_solve_equal_the_reference(tmp_path: Path) -> None:
    options = {"key-history.weight": "2", "key-history.keys": "solved"}
    found = distances("memit+key-history", ReferenceSolvedKeys, "gpt2", "float64", tmp_path, options)
    assert max(found) < LIMITS["gpt2", "float64"]


@pytest.mark.parametrize("sizes", [(3, 2, 4), (30, 10, 5)])
def test_sum_over_batches_equals_the_one_shot_solution(sizes: tuple[int, ...]) -> None:
    covariance, total = random_covariance(), torch.zeros(D, F, dtype=torch.float64)
    batches = [random_problem(size, seed) for seed, size in enumerate(sizes)]
    for at, (keys, wanted) in enumerate(batches):
        earlier = [one for one, _wanted in batches[:at]]
        update = dense(ridge_update(covariance, keys, wanted - total @ keys, 3.0, earlier))
        normal = 3.0 * covariance.matrix + sum((k @ k.T for k in [*earlier, keys]), torch.zeros(F, F).double())
        plain = (wanted - total @ keys) @ torch.linalg.solve(normal, keys).T
        torch.testing.assert_close(update, plain, rtol=1e-8, atol=1e-10)
        total = total + update
    every, all_wanted = (torch.cat(parts, dim=1) for parts in zip(*batches, strict=True))
    torch.testing.assert_close(total, dense(ridge_update(covariance, every, all_wanted, 3.0)), rtol=1e-8, atol=1e-10)
