"""Devices with and without float64, and the simulated device without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.decoding.float64 import double, home
from ke_weights.testing.apart import without_float64


@pytest.mark.parametrize(("device", "where"), [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("mps", "cpu"), ("mps:0", "cpu")])
def test_float64_uses_the_tensors_device_except_on_mps(device: str, where: str) -> None:
    assert home(torch.device(device)) == torch.device(where)


def test_double_is_exact() -> None:
    numbers = torch.rand(7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(double(numbers), numbers.to(torch.float64))


@pytest.mark.parametrize(
    "wrong", [lambda one: one.double(), lambda one: one.to(torch.float64), lambda one: one + double(one)]
)
def test_the_simulated_device_fails_like_the_real_one(wrong: Callable[[Tensor], Tensor]) -> None:
    with without_float64(), pytest.raises(AssertionError, match="float64"):
        wrong(torch.ones(3))


def test_the_simulated_device_accepts_what_the_real_one_accepts() -> None:
    with without_float64():
        assert float((double(torch.ones(3)) * 2).float().sum()) == 6
