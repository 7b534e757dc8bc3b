"""Float32 products of linear layers through oneDNN, on processors for which MKL does not use AVX-512.

PyTorch computes float32 products on x86 with MKL, which has AVX-512 code for Intel's processors only. On an AMD EPYC
with AVX-512, oneDNN, which PyTorch contains too, is 1.5 to 3 times as fast (``benchmarks/RESULTS.md``). It reads the
weight in place, so there is no second copy, and edits take effect at once.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

SMALLEST = 2048
"""Products with fewer results stay with MKL, because a call of oneDNN costs more."""


class OneDnnLinear(nn.Linear):
    """A linear layer whose product is ``linear``. Nothing else differs."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name
        """Return the product, [..., out_features]."""
        return linear(input, self.weight, self.bias)


def use_onednn(module: nn.Module) -> None:
    """Let the linear layers of ``module`` compute float32 products with oneDNN, where that is faster.

    It replaces their class, so it is only for modules that this package loads. Layers of other classes, such as
    quantized ones, stay as they are.
    """
    if _mkl_is_slow():
        for part in module.modules():
            if type(part) is nn.Linear:
                part.__class__ = OneDnnLinear


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b: ``x`` [..., n], ``weight`` [m, n], ``bias`` [m], as ``torch.nn.functional.linear`` does."""
    if not _suited(x, weight, bias):
        return nn.functional.linear(x, weight, bias)
    if torch.is_grad_enabled() and any(its is not None and its.requires_grad for its in (x, weight, bias)):
        found: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]  # of torch
        return found
    return _product(x, weight, bias)


def _suited(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Return whether oneDNN's operation computes this product, and is faster. It ignores the strides of a bias."""
    parts = (x, weight) if bias is None else (x, weight, bias)
    return (
        all(type(its) in {Tensor, nn.Parameter} for its in parts)  # neither distributed nor traced
        and all(its.dtype == torch.float32 and its.device.type == "cpu" for its in parts)
        and x.numel() > 0
        and x.shape[:-1].numel() * weight.shape[0] >= SMALLEST
        and (bias is None or (bias.is_contiguous() and bias.shape == weight.shape[:1]))
        and not torch.is_autocast_enabled("cpu")
        and forward_ad._current_level < 0  # noqa: SLF001  has no public name; oneDNN's operation has no tangents
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # noqa: SLF001  has no public name
    return found


class _Linear(torch.autograd.Function):
    """``linear`` with gradients, which oneDNN's operation does not have."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the product."""
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004  torch's signature
        """Keep what the gradients need."""
        x, weight, _bias = inputs
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of ``x``, ``weight`` and ``bias``, for gradients [..., m] of the result."""
        x, weight = ctx.saved_tensors
        (grad,), needed = grads, ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            linear(grad, weight.t()) if needed[0] else None,
            linear(rows.t(), x.reshape(-1, x.shape[-1]).t()) if needed[1] else None,
            rows.sum(0) if needed[2] else None,
        )


@cache
def _mkl_is_slow() -> bool:
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not both or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    described = Path("/proc/cpuinfo")
    return "GenuineIntel" not in (described.read_text("utf-8") if described.exists() else platform.processor())
