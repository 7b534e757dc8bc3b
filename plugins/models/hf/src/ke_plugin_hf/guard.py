"""Change weights and restore them bit for bit.

An editor passes updates in map orientation, [out, in], whatever the module stores. ``Patch`` saves a tensor before its
first change and copies it back at the end, also after an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from attrs import define, field, frozen
from torch import Tensor, nn

from ke_core.plugin import EditFailed, UninterruptibleContext, uninterruptible, uninterruptible_context


@frozen(kw_only=True, eq=False)
class Dense:
    """A full-rank update: ``delta`` [out, in], or [out] for a bias; any floating dtype."""

    delta: Tensor


@frozen(kw_only=True, eq=False)
class LowRank:
    """An update in factors: ``left`` [out, r] times ``right`` [r, in]."""

    left: Tensor
    right: Tensor


Delta = Dense | LowRank
NOT_QUANTIZED = "use a checkpoint of the model that is not quantized"
WHOLE_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def quantized(weight: Tensor) -> bool:
    """Return whether ``weight`` is quantized. 8-bit floats count, because they have scales, like integers.

    A tensor that wraps others counts too: torchao stores codes in one, whose dtype is that of the decoded weight.
    """
    return weight.dtype not in WHOLE_TYPES or hasattr(weight.detach(), "__tensor_flatten__")


def stored_as(weight: Tensor) -> str:
    """Return how ``weight`` is stored, for an error message: its dtype, or its class if that is not Tensor."""
    kind = type(weight.detach())
    return kind.__name__ if weight.dtype in WHOLE_TYPES and quantized(weight) else str(weight.dtype)


def whole_instead(weight: Tensor) -> str:
    """Return how to get an unquantized ``weight``. bitsandbytes quantizes weights while loading them; other codes are
    in the checkpoint.
    """
    if hasattr(weight, "quant_type"):
        return "load the model with --dtype float32 or bfloat16"
    return NOT_QUANTIZED


def map_orientation(module: nn.Module, weight: Tensor) -> Tensor:
    """Return ``weight`` as [out, in]: a view, transposed if the module stores [in, out].

    The module's type decides. The shape of a square weight does not show it (GPT-2's Conv1D stores [in, out]).
    """
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415  transformers takes seconds to import

    return weight.T if isinstance(module, Conv1D) and weight.dim() == 2 else weight


@define(eq=False)
class RecordedUpdates:
    """The active updates of patches that were opened while recording.

    Copies, in their original precision, because an editor may change its tensors later.
    """

    patches: list[Patch] = field(factory=list, init=False)
    """The open patches."""

    def deltas(self) -> dict[str, list[Delta]]:
        """Return the active updates by parameter name, in order of first use and of addition."""
        found: dict[str, list[Delta]] = {}
        for patch in self.patches:
            for name, delta in patch.made:
                found.setdefault(name, []).append(delta)
        return found


@define(eq=False)
class PatchStack(UninterruptibleContext["PatchStack"]):
    """Stacked patches that are removed together, so that each weight is saved once for all of them, and once more while
    a group of them may still fail.
    """

    module: nn.Module
    _saved: dict[str, Tensor] = field(factory=dict, init=False)
    _since: dict[str, Tensor] = field(factory=dict, init=False)
    patches: list[Patch] = field(factory=list, init=False)
    """The open patches. Each removes its own updates until they are settled."""

    def _begin(self) -> PatchStack:
        return self

    @uninterruptible
    def settle(self) -> None:
        """Leave the removal of the open patches' updates so far to ``undo`` or the end of the chain."""
        for patch in self.patches:
            for name, tensor in patch.release().items():
                self._since.setdefault(name, tensor)

    @uninterruptible
    def keep(self) -> None:
        """Keep the settled updates until the chain ends."""
        for name, tensor in self._since.items():
            self._saved.setdefault(name, tensor)
        self._since.clear()

    @uninterruptible
    def undo(self) -> None:
        """Remove the updates settled since ``keep``. Open patches must end first."""
        _restore(self.module, self._since)
        self._since.clear()

    @uninterruptible
    def retain(self) -> None:
        """Keep the updates in the model: nothing is restored when the chain ends."""
        self.settle()
        self._since.clear()
        self._saved.clear()

    @uninterruptible_context
    def suspended(self) -> Iterator[None]:
        """Restore the original weights in the block, and the updated ones after it, both bit for bit."""
        originals: dict[str, Tensor] = {}
        for saved in (self._saved, self._since, *(patch.originals() for patch in self.patches)):
            originals = {**saved, **originals}
        with swapped(self.module, originals):
            yield

    def _end(self, _error: BaseException | None) -> None:
        self.settle()  # also updates of a patch whose context was never closed
        self.undo()
        _restore(self.module, self._saved)
        self._saved.clear()


@define(eq=False)
class Patch(UninterruptibleContext["Patch"]):
    """Adds updates to a module's parameters while the context is open.

    Nested patches end in reverse order. Nothing else in the module changes: no flags, no hooks. ``recorders`` get every
    update while it is active. A patch of a ``chain`` leaves settled updates to it.
    """

    module: nn.Module
    recorders: tuple[RecordedUpdates, ...] = ()
    chain: PatchStack | None = None
    made: list[tuple[str, Delta]] = field(factory=list, init=False)
    _saved: dict[str, Tensor] = field(factory=dict, init=False)

    def _begin(self) -> Patch:
        for listener in self._listeners:
            listener.patches.append(self)
        return self

    @uninterruptible
    def add(self, name: str, delta: Delta) -> None:
        """Add ``delta`` to the parameter called ``name`` (``model.layers.4.mlp.down_proj.weight``).

        The sum is computed in float32 (float64 for float64 weights) and cast once. Raises EditFailed, without changing
        the weight, if the name or the shape does not match, or if the update is not finite.
        """
        owner, parameter = _find(self.module, name)
        stored = map_orientation(owner, parameter)
        precise = torch.promote_types(parameter.dtype, torch.float32)
        update = _whole(delta, parameter.device, precise)
        if update.shape != stored.shape:
            raise EditFailed(
                f"an update of shape {tuple(update.shape)} does not fit {name}, which has shape "
                f"{tuple(stored.shape)} as [out, in]",
                hint="updates must have the shape [out, in], whatever the module stores",
            )
        if not bool(torch.isfinite(update).all()):
            raise EditFailed(
                f"the update of {name} contains NaN or infinity", hint="check the statistics and the learning rate"
            )
        if name not in self._saved:
            self._saved[name] = parameter.detach().clone()
        with torch.no_grad():
            stored.copy_(stored.to(precise).add_(update) if stored.dtype != precise else stored + update)
        if self.recorders:
            self.made.append((name, _copied(delta, precise)))

    def relative_norm(self, name: str) -> float | None:
        """Return the relative change of the parameter since this patch opened: a ratio of Frobenius norms.

        0 for an unchanged parameter; None for one that was all zeros (an untrained bias).
        """
        if name not in self._saved:
            return 0.0
        before = self._saved[name].float()
        _owner, parameter = _find(self.module, name)
        size = float(torch.linalg.vector_norm(before))
        return float(torch.linalg.vector_norm(parameter.detach().float() - before)) / size if size else None

    def originals(self) -> Mapping[str, Tensor]:
        """Return the original values of the changed parameters by name, in the module's own orientation."""
        return dict(self._saved)

    def release(self) -> dict[str, Tensor]:
        """Return the original values; the patch does not restore them any more."""
        saved, self._saved = self._saved, {}
        return saved

    def _end(self, _error: BaseException | None) -> None:
        _restore(self.module, self._saved)
        self._saved.clear()
        self.made.clear()
        for listener in self._listeners:
            listener.patches.remove(self)

    @property
    def _listeners(self) -> tuple[RecordedUpdates | PatchStack, ...]:
        return self.recorders if self.chain is None else (*self.recorders, self.chain)


@uninterruptible_context
def swapped(module: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Use ``weights`` for the parameters of these names in the block, and the current values after it, bit for bit."""
    current = {name: _find(module, name)[1].detach().clone() for name in weights}
    _restore(module, weights)
    try:
        yield
    finally:
        _restore(module, current)


def _restore(module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        # Last saved first: two names of one tied tensor then end with the value that the first of them saved.
        for name in reversed(list(saved)):
            _find(module, name)[1].copy_(saved[name])


def _find(module: nn.Module, name: str) -> tuple[nn.Module, nn.Parameter]:
    path, _, leaf = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
        parameter = owner.get_parameter(leaf)
    except AttributeError:
        raise EditFailed(
            f"the model has no parameter {name}", hint="module.named_parameters() lists the names"
        ) from None
    if parameter.is_meta:
        raise EditFailed(f"{name} is offloaded and cannot be changed", hint="load the whole model into memory")
    if quantized(parameter):
        raise EditFailed(
            f"{name} is stored as {stored_as(parameter)} and cannot be changed", hint=whole_instead(parameter)
        )
    return owner, parameter


def _whole(delta: Delta, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the update as one tensor, [out, in]."""
    if isinstance(delta, Dense):
        return delta.delta.detach().to(device=device, dtype=dtype)
    left = delta.left.detach().to(device=device, dtype=dtype)
    return left @ delta.right.detach().to(device=device, dtype=dtype)


def _copied(delta: Delta, dtype: torch.dtype) -> Delta:
    """Return a copy of ``delta`` in its original precision."""
    if isinstance(delta, Dense):
        return Dense(delta=delta.delta.detach().to(dtype, copy=True))
    return LowRank(left=delta.left.detach().to(dtype, copy=True), right=delta.right.detach().to(dtype, copy=True))
