"""A device without float64 (Apple's MPS), played on the processor: what would fail there fails here."""

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


class _Apart(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        made = op(*args, **(kwargs or {}))
        given, found = _kinds((args, kwargs)), _kinds(made)
        assert len(given) < 2, f"{op} takes float64, which is at home, and float32, which is on the device"
        if given == {torch.float32} and torch.float64 in found:
            assert _inside_double(), f"{op} makes float64 on a device that has none: take ke_weights.plugin.double"
        return made


@contextmanager
def without_float64() -> Iterator[None]:
    """Fail where a float64 tensor is made of a float32 one but by ``double``, or where the two meet.

    On the played device float32 tensors lie on it, and float64 ones on the processor.
    """
    with _Apart():  # type: ignore[no-untyped-call]  # as above
        yield


def _kinds(values: Any) -> set[torch.dtype]:
    """float32 and float64, as far as tensors of more than one number have them."""
    types = {value.dtype for value in tree_leaves(values) if isinstance(value, Tensor) and value.dim()}
    return types & {torch.float32, torch.float64}


def _inside_double() -> bool:
    frame: Any = sys._getframe(1)  # noqa: SLF001  the one way to know the caller
    while frame is not None and frame.f_code is not float64.double.__code__:
        frame = frame.f_back
    return frame is not None
