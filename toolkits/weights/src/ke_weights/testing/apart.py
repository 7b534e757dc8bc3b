"""Simulate a device without float64 (such as Apple's MPS) on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ke_plugin_hf.decoding import float64


class _Float64Check(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        made = op(*args, **(kwargs or {}))
        given, found = _kinds((args, kwargs)), _kinds(made)
        assert len(given) < 2, f"{op} combines float64, which is on the CPU, with float32, which is on the device"
        if given == {torch.float32} and torch.float64 in found:
            assert _inside_double(), f"{op} creates float64 on a device without it: use ke_weights.plugin.double"
        return made


@contextmanager
def without_float64() -> Iterator[None]:
    """Fail if a float32 tensor is converted to float64 without ``double``, or if both dtypes are combined.

    float32 tensors count as being on the simulated device, and float64 tensors as being on the CPU.
    """
    with _Float64Check():  # type: ignore[no-untyped-call]  # as above
        yield


def _kinds(values: Any) -> set[torch.dtype]:
    """Return which of float32 and float64 occur among tensors that are not scalars."""
    types = {value.dtype for value in tree_leaves(values) if isinstance(value, Tensor) and value.dim()}
    return types & {torch.float32, torch.float64}


def _inside_double() -> bool:
    frame: Any = sys._getframe(1)  # noqa: SLF001  finds the caller
    while frame is not None and frame.f_code is not float64.double.__code__:
        frame = frame.f_back
    return frame is not None
