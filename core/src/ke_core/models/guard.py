"""Changing weights, and giving them back bit for bit.

An editor hands over updates in map orientation, [out, in], whatever the module stores; ``Patch`` saves a
tensor at its first use and copies it back on the way out, also after an exception.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import torch
from attrs import define, field, frozen
from torch import Tensor, nn

from ke_core.errors import EditFailed
from ke_core.models.fingerprint import digest_of, fingerprint


@frozen(kw_only=True, eq=False)
class Dense:
    """An update given whole: ``delta`` [out, in], or [out] for a bias; any floating dtype."""

    delta: Tensor


@frozen(kw_only=True, eq=False)
class LowRank:
    """An update given by factors: ``left`` [out, r] times ``right`` [r, in]."""

    left: Tensor
    right: Tensor


Delta = Dense | LowRank


def map_orientation(module: nn.Module, weight: Tensor) -> Tensor:
    """``weight`` as the map it stands for, [out, in]: a view, transposed where the module stores [in, out].

    Decided by the module's type. A square weight has no shape to tell by (GPT-2's Conv1D stores [in, out]).
    """
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415  transformers takes seconds to import

    return weight.T if isinstance(module, Conv1D) and weight.dim() == 2 else weight


@define(eq=False)
class Patch:
    """Adds updates to a module's parameters for as long as the context is open.

    Nested patches unwind in order. Nothing else of the module is touched: no flags, no hooks.
    """

    module: nn.Module
    _saved: dict[str, Tensor] = field(factory=dict, init=False)

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, delta: Delta) -> None:
        """Add ``delta`` to the parameter called ``name`` (``model.layers.4.mlp.down_proj.weight``).

        Added in float32 (float64 for float64 weights) and cast once. Raises EditFailed where the name or the
        shape does not fit, and where the update is not finite; the weight is then as it was.
        """
        owner, parameter = self._find(name)
        stored = map_orientation(owner, parameter)
        precise = torch.promote_types(parameter.dtype, torch.float32)
        update = _whole(delta, parameter.device, precise)
        if update.shape != stored.shape:
            raise EditFailed(
                f"an update of shape {tuple(update.shape)} does not fit {name}, which maps as {tuple(stored.shape)}",
                hint="updates are given in map orientation, [out, in], whatever the module stores",
            )
        if not bool(torch.isfinite(update).all()):
            raise EditFailed(
                f"the update of {name} holds NaN or infinity", hint="look at the statistics and the learning rate"
            )
        if name not in self._saved:
            self._saved[name] = parameter.detach().clone()
        with torch.no_grad():
            stored.copy_(stored.to(precise).add_(update) if stored.dtype != precise else stored + update)

    def relative_norm(self, name: str) -> float:
        """How far the parameter is from what this patch found, as a share of that: Frobenius norms, no unit.

        0 for a parameter that was not touched.
        """
        if name not in self._saved:
            return 0.0
        before = self._saved[name].float()
        _owner, parameter = self._find(name)
        change = torch.linalg.vector_norm(parameter.detach().float() - before)
        return float(change / torch.linalg.vector_norm(before))

    def touched(self) -> tuple[str, ...]:
        """The parameters changed so far, in order of first use."""
        return tuple(self._saved)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with torch.no_grad():
            # Last saved first: two names of one tied tensor then end at what the first of them found.
            for name in reversed(self._saved):
                self._find(name)[1].copy_(self._saved[name])
        self._saved.clear()

    def _find(self, name: str) -> tuple[nn.Module, nn.Parameter]:
        path, _, leaf = name.rpartition(".")
        try:
            owner = self.module.get_submodule(path)
            parameter = owner.get_parameter(leaf)
        except AttributeError:
            raise EditFailed(
                f"the model has no parameter {name}", hint="module.named_parameters() lists them"
            ) from None
        if parameter.is_meta or not parameter.dtype.is_floating_point:
            kind = "offloaded" if parameter.is_meta else f"stored as {parameter.dtype}"
            raise EditFailed(
                f"{name} is {kind} and cannot be changed", hint="load the model whole, in a floating dtype"
            )
        return owner, parameter


def _whole(delta: Delta, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The update as one tensor, [out, in]."""
    if isinstance(delta, Dense):
        return delta.delta.detach().to(device=device, dtype=dtype)
    left = delta.left.detach().to(device=device, dtype=dtype)
    return left @ delta.right.detach().to(device=device, dtype=dtype)


__all__ = ["Delta", "Dense", "LowRank", "Patch", "digest_of", "fingerprint", "map_orientation"]
