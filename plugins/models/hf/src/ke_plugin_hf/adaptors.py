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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from attrs import define, field, frozen
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ke_core.plugin import EditFailed, UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_plugin_hf.kept_rows import keep, kept_of

State = Mapping[str, Tensor]


@frozen(kw_only=True, eq=False)
class LayerCall:
    """One call of a layer. B rows (texts), T positions; ``inputs`` [B, T, in], ``output`` [B, T, out].

    ``padding``, ``prompt`` and ``answer`` [B, T] are bool, and exactly one of them is true at each position. Generated
    tokens and the continuations of a likelihood request are answer. ``last_prompt`` [B] is the position of the last
    prompt token of each row, or -1 if an earlier call has read it, as in every decoding step after the first.

    ``kept`` [B, ...]: what the function returned besides the output in an earlier call for these rows, else None.
    """

    inputs: Tensor
    output: Tensor
    padding: Tensor
    prompt: Tensor
    answer: Tensor
    last_prompt: Tensor
    kept: Tensor | None = None


LayerForward = Callable[[LayerCall, State], Tensor | tuple[Tensor, Tensor]]
"""From a call and the state to the new output of the layer, with the same shape and dtype.

With a tuple, the second tensor [B, ...] is ``kept`` of later calls that read more tokens of the same rows.
"""


@frozen(kw_only=True, eq=False)
class _Pass:
    """The roles of the positions in one forward call of the model, bool [B, T] and [B], and its cache."""

    padding: Tensor
    prompt: Tensor
    last_prompt: Tensor
    cache: Any = None


_prompts: ContextVar[Sequence[int] | None] = ContextVar("prompt tokens of each row", default=None)
_suspended: ContextVar[bool] = ContextVar("adaptors are suspended", default=False)
_numbers = count()


@uninterruptible_context
def prompt_lengths(lengths: Sequence[int]) -> Iterator[None]:
    """Treat the first ``lengths[b]`` tokens of each row as prompt, and later ones as answer, in forward calls of the
    block.

    Without this context, all tokens of a call are prompt, and those of later calls with the same cache are answer.
    """
    token = _prompts.set(lengths)
    try:
        yield
    finally:
        _prompts.reset(token)


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
    ``others``: the open adaptors of the same model, in order of opening.
    """

    module: nn.Module
    layer: str
    forward: LayerForward
    state: State
    others: list[Adaptor]
    source: str = field(init=False)
    number: int = field(factory=lambda: next(_numbers), init=False)
    _kept: Tensor | None = field(default=None, init=False)
    _handles: list[RemovableHandle] = field(factory=list, init=False)
    _pass: _Pass | None = field(default=None, init=False)

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
        self._pass = None if _suspended.get() else _pass_of(args, kwargs, _prompts.get())
        self._kept = None if self._pass is None else kept_of(self._pass.cache).get(self.number)

    def _forget_pass(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        if self._kept is not None and self._pass is not None:
            # Without a cache of the caller, the model creates one.
            cache = getattr(output, "past_key_values", None) if self._pass.cache is None else self._pass.cache
            if cache is not None:
                keep(cache, self.number, self._kept)
        self._pass = self._kept = None

    def _run(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        if _suspended.get() or not self.state:
            return None
        inputs, before = hidden_in(args, kwargs), first(output)
        roles = self._pass or _whole_prompts(before)
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
        )
        found = self.forward(call, self.state)
        after, self._kept = found if isinstance(found, tuple) else (found, None)
        if after.shape != call.output.shape or after.dtype != call.output.dtype:
            raise EditFailed(
                f"the adaptor of {self.layer} returned {after.dtype} {tuple(after.shape)} "
                f"for an output of {call.output.dtype} {tuple(call.output.shape)}",
                hint="return a tensor of the same shape and dtype",
            )
        after = after.reshape(before.shape)
        return after if isinstance(output, Tensor) else (after, *output[1:])


def _pass_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], prompts: Sequence[int] | None) -> _Pass:
    """Return the roles of the positions in a call of the whole model with these arguments."""
    fed = kwargs.get("input_ids", args[0] if args else None)
    fed = kwargs["inputs_embeds"] if fed is None else fed
    rows, length = fed.shape[:2]
    mask = kwargs.get("attention_mask")
    if mask is None or mask.dim() != 2:
        cache = kwargs.get("past_key_values")
        before = cache.get_seq_length() if cache else 0
        mask = torch.ones((rows, before + length), dtype=torch.int64, device=fed.device)
    tokens = mask.ne(0).to(torch.int64)
    read = tokens.shape[1] - length
    places = tokens.cumsum(1)[:, read:] - 1  # position of each column in its text
    padding = tokens[:, read:] == 0
    if prompts is None:
        counts = (tokens[:, :read] if read else tokens).sum(1)
    else:
        counts = torch.tensor(prompts, dtype=torch.int64, device=tokens.device)
    prompt = (places < counts[:, None]) & ~padding
    here = prompt & (places == counts[:, None] - 1)
    return _Pass(padding=padding, prompt=prompt, last_prompt=_first_true(here), cache=kwargs.get("past_key_values"))


def _whole_prompts(output: Tensor) -> _Pass:
    """Return the roles if the layer is called directly: everything is prompt."""
    rows, length = output.shape[:2] if output.dim() > 2 else (1, output.shape[0])
    prompt = torch.ones((rows, length), dtype=torch.bool)
    return _Pass(padding=~prompt, prompt=prompt, last_prompt=torch.full((rows,), length - 1, dtype=torch.int64))


def _first_true(found: Tensor) -> Tensor:
    """Return the column of the first true value of each row, or -1 if there is none."""
    return torch.where(found.any(1), found.to(torch.int64).argmax(1), -1)


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


def state_tensors(adaptors: Sequence[Adaptor]) -> Iterator[tuple[str, Tensor]]:
    """Return every tensor of the open adaptors, with names that contain their position."""
    for number, adaptor in enumerate(active(adaptors)):
        for name in sorted(adaptor.state):
            yield f"adaptor {number} of {adaptor.layer}: {name}", adaptor.state[name]
