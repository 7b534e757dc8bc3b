"""TIES merging, against its three steps written out entry by entry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ke_plugin_wise.ties import ties, trim


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def plain(differences: list[Tensor], weights: list[float], density: float) -> Tensor:
    """Return the merged difference, one entry at a time."""
    kept = []
    for one in differences:
        order = sorted(range(one.numel()), key=lambda at: -abs(float(one.flatten()[at])))
        largest = set(order[: int(density * one.numel())])
        kept.append([float(value) if at in largest else 0.0 for at, value in enumerate(one.flatten())])
    found = []
    for entries in zip(*kept, strict=True):
        sign = 1 if sum(w * e for w, e in zip(weights, entries, strict=True)) >= 0 else -1
        agree = [(w, e) for w, e in zip(weights, entries, strict=True) if e * sign > 0]
        found.append(sum(w * e for w, e in agree) / sum(w for w, _ in agree) if agree else 0.0)
    return torch.tensor(found, dtype=torch.float32).reshape(differences[0].shape)


@pytest.mark.parametrize("density", [0.2, 0.53, 1.0])
@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.2, 0.2, 0.6]])
def test_merge_equals_the_three_steps(weights: list[float], density: float) -> None:
    differences = [noise(seed, 6, 9) for seed in range(len(weights))]
    torch.testing.assert_close(ties(differences, weights, density), plain(differences, weights, density))


def test_identical_shards_give_that_shard() -> None:
    one = noise(0, 6, 9)
    torch.testing.assert_close(ties([one, one.clone()], [0.5, 0.5], 1.0), one)


def test_disjoint_shards_give_their_union() -> None:
    mask = noise(3, 6, 9) > 0
    one, other = noise(0, 6, 9) * mask, noise(1, 6, 9) * ~mask
    torch.testing.assert_close(ties([one, other], [0.5, 0.5], 1.0), one + other)


def test_opposite_signs_give_the_larger_entry() -> None:
    one, other = torch.tensor([[3.0, -1.0, 2.0]]), torch.tensor([[-1.0, 2.0, 4.0]])
    assert ties([one, other], [0.5, 0.5], 1.0).tolist() == [[3.0, 2.0, 3.0]]


def test_trim_keeps_the_largest_entries() -> None:
    one = torch.tensor([[0.1, -3.0, 2.0, -0.5]])
    assert trim(one, 0.5).tolist() == [[0.0, -3.0, 2.0, 0.0]]
    assert trim(one, 0.1).tolist() == [[0.0] * 4]
    assert torch.equal(trim(one, 1.0), one)
