"""Forward hooks that observe a pass and leave the model unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ke_core.plugin import UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_plugin_hf.adaptors import first
from ke_plugin_hf.decoding.passes import COUNTER


class Stopped(Exception):
    """Raised by a hook to end a forward pass early; ``forward`` catches it."""


class Hooks(UninterruptibleContext["Hooks"]):
    """Forward hooks that are removed when the block ends, also after an exception."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def _begin(self) -> Hooks:
        return self

    def _end(self, _error: BaseException | None) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def before(self, module: nn.Module, see: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        """Call ``see(args, kwargs)`` before each call of ``module``."""

        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            see(args, kwargs)

        self._keep(lambda: module.register_forward_pre_hook(hook, with_kwargs=True))

    def after(self, module: nn.Module, see: Callable[[Tensor], None]) -> None:
        """Call ``see(output)`` after each call of ``module``; of a tuple, with the hidden states only."""

        def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            see(first(output))

        self.add(module, hook)

    def change(self, module: nn.Module, make: Callable[[Tensor], Tensor]) -> None:
        """Replace each output of ``module`` with ``make(output)``; of a tuple, its hidden states only."""

        def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
            made = make(first(output))
            return made if isinstance(output, Tensor) else (made, *output[1:])

        self.add(module, hook)

    def stop_after(self, module: nn.Module) -> None:
        """End the pass after ``module``; register it after other hooks on ``module``."""

        def hook(_module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
            raise Stopped

        self.add(module, hook)

    def add(self, module: nn.Module, hook: Callable[[nn.Module, tuple[Any, ...], Any], Any]) -> None:
        """Call ``hook(module, args, output)`` after each call of ``module``.

        A result other than None replaces the output.
        """
        self._keep(lambda: module.register_forward_hook(hook))

    @uninterruptible
    def _keep(self, register: Callable[[], RemovableHandle]) -> None:
        self._handles.append(register())


def forward(module: nn.Module, ids: Tensor, mask: Tensor, **more: Any) -> Any:
    """Run the whole model on token ids [rows, T] with mask [rows, T]; None if a hook ended the pass."""
    COUNTER.add(ids.numel())
    try:
        return module(input_ids=ids, attention_mask=mask, **({"use_cache": False} | more))
    except Stopped:
        return None


@uninterruptible_context
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set torch's default dtype while the block runs, for libraries that create tensors without naming one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@uninterruptible_context
def frozen_module(module: nn.Module) -> Iterator[None]:
    """No dropout and no gradients for parameters while the block runs; every flag is restored, torch's own too."""
    enabled = torch.is_grad_enabled()
    training = {child: child.training for child in module.modules()}
    wanted = {parameter: parameter.requires_grad for parameter in module.parameters()}
    try:
        module.eval()
        for parameter in wanted:
            parameter.requires_grad = False
        torch.set_grad_enabled(False)
        yield
    finally:
        torch.set_grad_enabled(enabled)
        for child, mode in training.items():
            child.training = mode
        for parameter, grad in wanted.items():
            parameter.requires_grad = grad
