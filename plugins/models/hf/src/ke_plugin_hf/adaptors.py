"""Adaptors: functions that change the output of a named layer without changing a parameter.

::

    with session.model.adapt("model.layers.9.mlp.down_proj", replace, {"keys": keys, "values": values}) as adaptor:
        ...                                                   # every call of the layer runs `replace`
        adaptor.replace_state({"keys": more, "values": more})  # later calls use other tensors

The digest of the model covers the source file of the function and every tensor of the state (docs/digests.md).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from attrs import define, field
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ke_core.plugin import EditFailed, UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_plugin_hf.kept_rows import keep, kept_of
from ke_plugin_hf.layer_calls import ForwardRoles, LayerCall, LayerForward, State, roles_of, whole_prompts

_suspended: ContextVar[bool] = ContextVar("adaptors are suspended", default=False)
_numbers = count()


@uninterruptible_context
def without_adaptors() -> Iterator[None]:
    """Skip every adaptor in forward calls of the block, to test the model itself."""
    token = _suspended.set(True)
    try:
        yield
    finally:
        _suspended.reset(token)


@define(eq=False)
class Adaptor(UninterruptibleContext["Adaptor"]):
    """A function added to the layer called ``layer`` while the context is open; created by ``model.adapt``.

    With an empty state it is inactive: the function is not called, and the digest equals that of the model without it.
    ``others``: the open adaptors of the same model, in order of opening. ``router``: the one that decides for each row.
    """

    module: nn.Module
    layer: str
    forward: LayerForward
    state: State
    others: list[Adaptor]
    router: Adaptor | None = None
    source: str = field(init=False)
    number: int = field(factory=lambda: next(_numbers), init=False)
    _kept: Tensor | None = field(default=None, init=False)
    _handles: list[RemovableHandle] = field(factory=list, init=False)
    _pass: ForwardRoles | None = field(default=None, init=False)
    _decided: Tensor | None = field(default=None, init=False)  # what it keeps, once its layer has run in this pass

    def __attrs_post_init__(self) -> None:
        self.source = function_digest(self.forward)
        self.replace_state(self.state)

    @uninterruptible
    def replace_state(self, state: State) -> None:
        """Use other tensors from now on. Raises EditFailed for a value that is not a tensor."""
        _check_state(self.layer, state)
        self.state = dict(state)

    @property
    def hooks(self) -> frozenset[int]:
        """Return the ids of its hooks in the modules."""
        return frozenset(handle.id for handle in self._handles)

    @contextmanager
    def within_pass(self, ids: Tensor, mask: Tensor) -> Iterator[None]:
        """Treat calls of the layer in the block as parts of a pass over ``ids`` and ``mask`` [B, T].

        For training that runs the blocks from the layer on, without a call of the whole model.
        """
        self._see_pass(self.module, (), {"input_ids": ids, "attention_mask": mask})
        try:
            yield
        finally:
            self._pass = self._kept = self._decided = None

    def _begin(self) -> Adaptor:
        try:
            layer = self.module.get_submodule(self.layer)
        except AttributeError:
            raise EditFailed(
                f"the model has no layer {self.layer!r}", hint="module.named_modules() lists the names"
            ) from None
        # At the root: the layer itself sees neither the attention mask nor the cache.
        self._handles.append(self.module.register_forward_pre_hook(self._see_pass, with_kwargs=True))
        self._handles.append(layer.register_forward_hook(self._run, with_kwargs=True))
        self._handles.append(self.module.register_forward_hook(self._forget_pass, always_call=True))
        self.others.append(self)
        return self

    def _end(self, _error: BaseException | None) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self in self.others:
            self.others.remove(self)

    def _see_pass(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._decided = None
        self._pass = None if _suspended.get() else roles_of(args, kwargs)
        self._kept = None if self._pass is None else kept_of(self._pass.cache).get(self.number)

    def _forget_pass(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        if self._kept is not None and self._pass is not None:
            # Without a cache of the caller, the model creates one.
            cache = getattr(output, "past_key_values", None) if self._pass.cache is None else self._pass.cache
            if cache is not None:
                keep(cache, self.number, self._kept)
        self._pass = self._kept = self._decided = None

    def _run(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        if _suspended.get() or not self.state:
            return None
        inputs, before = hidden_in(args, kwargs), first(output)
        roles = self._pass or whole_prompts(before)
        rows, length = roles.padding.shape
        if before.shape[:-1].numel() != rows * length:
            raise EditFailed(
                f"{self.layer} was called with {before.shape[:-1].numel()} positions in a pass of {rows} x {length}",
                hint="adapt a layer that processes every token",
            )
        if self._kept is not None and len(self._kept) != rows:
            raise EditFailed(
                f"the cache has values of {len(self._kept)} rows for {self.layer}, and {rows} rows are read",
                hint="read the prompts again, in these rows",
            )
        device = before.device
        padding, prompt = roles.padding.to(device), roles.prompt.to(device)
        call = LayerCall(
            inputs=inputs.reshape(rows, length, -1),  # some families flatten the batch before an MLP
            output=before.reshape(rows, length, -1),
            padding=padding,
            prompt=prompt,
            answer=~(padding | prompt),
            last_prompt=roles.last_prompt.to(device),
            kept=self._kept,
            routed=self._routed(device),
        )
        found = self.forward(call, self.state)
        after, self._kept = found if isinstance(found, tuple) else (found, None)
        self._decided = call.kept if self._kept is None else self._kept
        if after.shape != call.output.shape or after.dtype != call.output.dtype:
            raise EditFailed(
                f"the adaptor of {self.layer} returned {after.dtype} {tuple(after.shape)} "
                f"for an output of {call.output.dtype} {tuple(call.output.shape)}",
                hint="return a tensor of the same shape and dtype",
            )
        after = after.reshape(before.shape)
        return after if isinstance(output, Tensor) else (after, *output[1:])

    def _routed(self, device: torch.device) -> Tensor | None:
        """Return what the router keeps of the rows of this pass; None without an active one."""
        if self.router is None or not self.router.state:
            return None
        decided = self.router._decided  # noqa: SLF001  its own kind
        if decided is None:
            raise EditFailed(
                f"{self.layer} runs before its router at {self.router.layer} has decided",
                hint="route at a layer that runs earlier, with a function that returns (output, decision)",
            )
        return decided.to(device)


def first(output: Any) -> Tensor:
    """Return the hidden states in a module's output.

    Blocks of some families return a tensor, those of others a tuple. ``output[0]`` of a tensor would be its first row.
    """
    found: Tensor = output if isinstance(output, Tensor) else output[0]
    return found


def hidden_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """Return the hidden states in a module's arguments."""
    found: Tensor = args[0] if args else kwargs["hidden_states"]
    return found


def function_digest(function: LayerForward) -> str:
    """Identify a function by its name and its source file. Raises EditFailed for one that holds values.

    A value held by a function (a closure, a method, a default) could change its output without changing the digest, and
    two models would share cached completions.
    """
    name = getattr(function, "__qualname__", repr(function))
    hint = "use a function at module level, and pass the tensors it needs in the state (docs/digests.md)"
    if not isinstance(function, FunctionType):
        raise EditFailed(f"the forward function of an adaptor is not a plain function: {name}", hint=hint)
    held = [*function.__code__.co_freevars, *(function.__kwdefaults__ or {}), *map(repr, function.__defaults__ or ())]
    if held:
        raise EditFailed(f"the forward function of an adaptor holds {', '.join(held)}: {name}", hint=hint)
    return f"{name} {_source_digest(function)}"


@cache
def _source_digest(function: FunctionType) -> str:
    file = inspect.getsourcefile(function)
    code = Path(file).read_bytes() if file and Path(file).is_file() else function.__code__.co_code
    return hashlib.sha256(code).hexdigest()[:32]


def _check_state(layer: str, state: State) -> None:
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise EditFailed(
                f"the state {name!r} of the adaptor of {layer} is not a tensor: {type(value).__name__}",
                hint="the digest of a model covers tensors: use torch.tensor(value, dtype=...)",
            )


def active(adaptors: Sequence[Adaptor]) -> list[Adaptor]:
    """Return the adaptors with a state. None while adaptors are suspended."""
    return [] if _suspended.get() else [adaptor for adaptor in adaptors if adaptor.state]


def identities(adaptors: Sequence[Adaptor]) -> Iterator[tuple[str, str]]:
    """Return the name and the function of every open adaptor, with the position of its router."""
    found = active(adaptors)
    for number, adaptor in enumerate(found):
        routed = f" routed by {found.index(adaptor.router)}" if adaptor.router in found else ""
        yield f"adaptor {number} of {adaptor.layer}", adaptor.source + routed


def state_tensors(adaptors: Sequence[Adaptor]) -> Iterator[tuple[str, Tensor]]:
    """Return every tensor of the open adaptors, with names that contain their position."""
    for number, adaptor in enumerate(active(adaptors)):
        for name in sorted(adaptor.state):
            yield f"adaptor {number} of {adaptor.layer}: {name}", adaptor.state[name]
