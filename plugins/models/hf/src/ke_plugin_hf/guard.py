"""Changing weights, and giving them back bit for bit.

An editor hands over updates in map orientation, [out, in], whatever the module stores; ``Patch`` saves a
tensor at its first use and copies it back on the way out, also after an exception.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from attrs import define, field, frozen
from torch import Tensor, nn

from ke_core.plugin import EditFailed, UninterruptibleContext, uninterruptible
from ke_plugin_hf.fingerprint import digest_of, fingerprint


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
NOT_QUANTIZED = "take a checkpoint of the model that is not quantized"
WHOLE_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def quantized(weight: Tensor) -> bool:
    """Whether the numbers of ``weight`` are not the weight itself: 8-bit floats come with scales, as integers do."""
    return weight.dtype not in WHOLE_TYPES


def whole_instead(weight: Tensor) -> str:
    """How to come by a model with ``weight`` whole. bitsandbytes packs weights while they are loaded; other codes are
    those of the checkpoint.
    """
    if hasattr(weight, "quant_type"):
        return "load the model with --dtype float32 or bfloat16"
    return NOT_QUANTIZED


def map_orientation(module: nn.Module, weight: Tensor) -> Tensor:
    """``weight`` as the map it stands for, [out, in]: a view, transposed where the module stores [in, out].

    Decided by the module's type. A square weight has no shape to tell by (GPT-2's Conv1D stores [in, out]).
    """
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415  transformers takes seconds to import

    return weight.T if isinstance(module, Conv1D) and weight.dim() == 2 else weight


@define(eq=False)
class RecordedUpdates:
    """What the patches that were opened while this recorded have added, and not yet taken back.

    Copies, in the precision they were added in, since an editor may go on working in the tensors it handed over.
    """

    _patches: list[Patch] = field(factory=list, init=False)

    def deltas(self) -> dict[str, list[Delta]]:
        """The updates in force by parameter name: names in order of first use, updates in the order of adding."""
        found: dict[str, list[Delta]] = {}
        for patch in self._patches:
            for name, delta in patch.made:
                found.setdefault(name, []).append(delta)
        return found

    def opened(self, patch: Patch) -> None:
        """``patch`` is open: what it adds belongs here."""
        self._patches.append(patch)

    def closed(self, patch: Patch) -> None:
        """``patch`` has taken its updates back."""
        self._patches.remove(patch)


@define(eq=False)
class PatchStack(UninterruptibleContext["PatchStack"]):
    """Patches made one on top of another and taken back together, so that each weight is saved once, however many
    there are; and once more while a group of them may still fail.
    """

    module: nn.Module
    _saved: dict[str, Tensor] = field(factory=dict, init=False)
    _since: dict[str, Tensor] = field(factory=dict, init=False)
    _open: list[Patch] = field(factory=list, init=False)

    def _begin(self) -> PatchStack:
        return self

    @uninterruptible
    def settle(self) -> None:
        """What the open patches have added so far ``undo`` takes back, or the chain's end; they themselves do not."""
        for patch in self._open:
            for name, tensor in patch.release().items():
                self._since.setdefault(name, tensor)

    @uninterruptible
    def keep(self) -> None:
        """What was settled so far stays until the chain ends."""
        for name, tensor in self._since.items():
            self._saved.setdefault(name, tensor)
        self._since.clear()

    @uninterruptible
    def undo(self) -> None:
        """Take back what was settled since ``keep``. Patches that are open must have ended first."""
        _restore(self.module, self._since)
        self._since.clear()

    def opened(self, patch: Patch) -> None:
        """``patch`` is open: until it is settled it takes back what it adds."""
        self._open.append(patch)

    def closed(self, patch: Patch) -> None:
        """``patch`` ends; what was settled of it stays."""
        self._open.remove(patch)

    def _end(self, _error: BaseException | None) -> None:
        self.settle()  # also what a patch added whose context was never closed
        self.undo()
        _restore(self.module, self._saved)
        self._saved.clear()


@define(eq=False)
class Patch(UninterruptibleContext["Patch"]):
    """Adds updates to a module's parameters for as long as the context is open.

    Nested patches unwind in order. Nothing else of the module is touched: no flags, no hooks. ``recorders`` are told
    of every update while it is in force; a patch of a ``chain`` leaves what was settled to it.
    """

    module: nn.Module
    recorders: tuple[RecordedUpdates, ...] = ()
    chain: PatchStack | None = None
    made: list[tuple[str, Delta]] = field(factory=list, init=False)
    _saved: dict[str, Tensor] = field(factory=dict, init=False)

    def _begin(self) -> Patch:
        for listener in self._listeners:
            listener.opened(self)
        return self

    @uninterruptible
    def add(self, name: str, delta: Delta) -> None:
        """Add ``delta`` to the parameter called ``name`` (``model.layers.4.mlp.down_proj.weight``).

        Added in float32 (float64 for float64 weights) and cast once. Raises EditFailed where the name or the
        shape does not fit, and where the update is not finite; the weight is then as it was.
        """
        owner, parameter = _find(self.module, name)
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
        if self.recorders:
            self.made.append((name, _copied(delta, precise)))

    def relative_norm(self, name: str) -> float | None:
        """How far the parameter is from what this patch found, as a share of that: Frobenius norms, no unit.

        0 for a parameter that was not touched; None for one that was all zeros (a bias that was never trained).
        """
        if name not in self._saved:
            return 0.0
        before = self._saved[name].float()
        _owner, parameter = _find(self.module, name)
        size = float(torch.linalg.vector_norm(before))
        return float(torch.linalg.vector_norm(parameter.detach().float() - before)) / size if size else None

    def touched(self) -> tuple[str, ...]:
        """The parameters changed so far, in order of first use."""
        return tuple(self._saved)

    def originals(self) -> Mapping[str, Tensor]:
        """The parameters touched so far as this patch found them, by name, in the module's own orientation."""
        return dict(self._saved)

    def release(self) -> dict[str, Tensor]:
        """The originals of what was touched; from now on this patch takes nothing of it back."""
        saved, self._saved = self._saved, {}
        return saved

    def _end(self, _error: BaseException | None) -> None:
        _restore(self.module, self._saved)
        self._saved.clear()
        self.made.clear()
        for listener in self._listeners:
            listener.closed(self)

    @property
    def _listeners(self) -> tuple[RecordedUpdates | PatchStack, ...]:
        return self.recorders if self.chain is None else (*self.recorders, self.chain)


def _restore(module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        # Last saved first: two names of one tied tensor then end at what the first of them found.
        for name in reversed(list(saved)):
            _find(module, name)[1].copy_(saved[name])


def _find(module: nn.Module, name: str) -> tuple[nn.Module, nn.Parameter]:
    path, _, leaf = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
        parameter = owner.get_parameter(leaf)
    except AttributeError:
        raise EditFailed(f"the model has no parameter {name}", hint="module.named_parameters() lists them") from None
    if parameter.is_meta:
        raise EditFailed(f"{name} is offloaded and cannot be changed", hint="load the model whole")
    if quantized(parameter):
        raise EditFailed(f"{name} is stored as {parameter.dtype} and cannot be changed", hint=whole_instead(parameter))
    return owner, parameter


def _whole(delta: Delta, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The update as one tensor, [out, in]."""
    if isinstance(delta, Dense):
        return delta.delta.detach().to(device=device, dtype=dtype)
    left = delta.left.detach().to(device=device, dtype=dtype)
    return left @ delta.right.detach().to(device=device, dtype=dtype)


def _copied(delta: Delta, dtype: torch.dtype) -> Delta:
    """``delta`` in the numbers it was added in, in memory of its own."""
    if isinstance(delta, Dense):
        return Dense(delta=delta.delta.detach().to(dtype, copy=True))
    return LowRank(left=delta.left.detach().to(dtype, copy=True), right=delta.right.detach().to(dtype, copy=True))


__all__ = [
    "Delta",
    "Dense",
    "LowRank",
    "Patch",
    "PatchStack",
    "RecordedUpdates",
    "digest_of",
    "fingerprint",
    "map_orientation",
]
