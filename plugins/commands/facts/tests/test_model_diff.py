"""The rank of a difference between weights that are rounded to the dtype of a checkpoint."""

from __future__ import annotations

import pytest
import torch

from ke_plugin_facts.model_diff import looks_like, rounding, weight_differences

NAME = "model.layers.4.mlp.down_proj.weight"


def module(weight: torch.Tensor) -> torch.nn.Module:
    """Return a module whose ``named_parameters`` is this weight."""
    found = torch.nn.Module()
    found.named_parameters = lambda: iter([(NAME, torch.nn.Parameter(weight))])  # type: ignore[method-assign,assignment,misc]
    return found


def edited(rank: int, size: float, *, rows: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random weight, with rows of very different norms if ``rows``, and the same with an update."""
    torch.manual_seed(0)
    weight = 0.05 * torch.randn(96, 256, dtype=torch.float64)
    if rows:
        weight *= torch.randn(96, 1, dtype=torch.float64).exp()
    update = torch.randn(96, rank, dtype=torch.float64) @ torch.randn(rank, 256, dtype=torch.float64)
    return weight, weight + size * update * weight.norm() / update.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("rank", [1, 5])
def test_rounding_does_not_add_to_the_rank(dtype: torch.dtype, rank: int, rows: bool) -> None:  # noqa: FBT001
    base, changed = edited(rank, 0.05, rows=rows)
    stored, second = base.to(dtype), changed.to(dtype)
    once = (stored.double() + changed - base).to(dtype)  # an edit of the stored base
    for right in (second, once):
        (found,) = weight_differences(module(stored), module(right))
        assert (found.rank, found.full) == (rank, 96)
        (found,) = weight_differences(module(stored.float()), module(right.float()))  # stored, but not loaded, in dtype
        assert found.rank == rank


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("rows", [False, True])
def test_errors_of_rounding_are_below_the_threshold_and_of_its_order(dtype: torch.dtype, rows: bool) -> None:  # noqa: FBT001
    weight, _changed = edited(1, 0.0, rows=rows)
    stored = weight.to(dtype)
    error = torch.linalg.svdvals(stored.double() - weight)[0]
    assert 0.1 < error / rounding(stored) < 0.75  # so that two rounded models are below it, too


def test_a_change_of_the_size_of_rounding_is_not_called_low_rank() -> None:
    stored = edited(1, 0.0, rows=False)[0].to(torch.bfloat16)
    moved = stored * torch.where(torch.rand(stored.shape) < 0.01, 1 + 2**-7, 1.0).to(torch.bfloat16)
    found = weight_differences(module(stored), module(moved))
    assert "Updates of full rank" in looks_like(found)
