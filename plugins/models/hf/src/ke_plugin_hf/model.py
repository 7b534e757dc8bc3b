"""A transformers model with the interfaces of the engine and the editors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Self

import torch
from attrs import define, field

from ke_core.plugin import (
    CONTINUATION_FORMAT,
    Completed,
    ForwardCalls,
    Generate,
    Generated,
    NextRequests,
    Score,
    Scored,
    uninterruptible_context,
)
from ke_plugin_hf.adaptors import Adaptor, active, without_adaptors
from ke_plugin_hf.decoding.forward import input_device
from ke_plugin_hf.decoding.memory import DeviceMeter, RowBatchSize
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.runner import LocalRunner
from ke_plugin_hf.decoding.tokens import PromptTokenizer
from ke_plugin_hf.decoding.verify import context_of
from ke_plugin_hf.fingerprint import Checksums, digest_of, fingerprint
from ke_plugin_hf.guard import Patch, PatchStack, RecordedUpdates
from ke_plugin_hf.layer_calls import LayerForward
from ke_plugin_hf.tensor_parallel import SPLIT, compare_requests, in_step, is_split

UNBOUNDED = 10**9
"""Larger values mean "no limit": a model without a maximum length (ALiBi), or a tokenizer's placeholder."""


@define(eq=False, kw_only=True)
class HFModel:
    """A causal language model in this process: ``ContinuousModel`` and ``OpenModel``.

    ``chat``: a prompt becomes one user turn of the tokenizer's chat template, and the reply is converted to a
    continuation. Create it with ``load`` or ``from_parts``.
    """

    id: str
    module: Any
    tokenizer: Any
    chat: bool = False
    on_progress: Callable[[int], None] | None = field(default=None, init=False)
    unneeded: Callable[[], Collection[int]] | None = field(default=None, init=False)
    context: int = field(init=False)
    _sums: Checksums = field(factory=Checksums, init=False)
    _adaptors: list[Adaptor] = field(factory=list, init=False)
    _recorders: list[RecordedUpdates] = field(factory=list, init=False)
    _chain: PatchStack | None = field(default=None, init=False)
    _plain: HFModel | None = field(default=None, init=False)
    _around: str = field(init=False)
    _coder: PromptTokenizer = field(init=False)
    _runner: LocalRunner = field(init=False)

    @classmethod
    def from_parts(cls, module: Any, tokenizer: Any, *, id: str, chat: bool = False) -> Self:  # noqa: A002  the contract's name
        """Wrap a loaded model and its tokenizer. Sets evaluation mode and disables gradients.

        It also disables cuDNN's attention in this process. PyTorch prefers it on NVIDIA's Hopper GPUs and newer, where
        it takes over 100 ms for each new shape (``docs/gpu.md``), and decoding has a new shape at each token.
        """
        torch.backends.cuda.enable_cudnn_sdp(enabled=False)
        module.eval()
        module.requires_grad_(requires_grad=False)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return cls(id=id, module=module, tokenizer=tokenizer, chat=chat)

    def __attrs_post_init__(self) -> None:
        self.context = _context(self.module, self.tokenizer)
        self._coder = PromptTokenizer(self.tokenizer, self.chat)
        ends = _end_of_text(self.module, self.tokenizer)
        self._around = _around(self.module, self._coder, ends)
        if self.split:
            SPLIT.add(self.module)
        self._runner = LocalRunner(
            module=self.module,
            coder=self._coder,
            eos=ends,
            context=self.context,
            digest=lambda: self.digest,
            adapted=lambda: bool(self.adaptors),
            size=RowBatchSize(self.device),
            report=self._report,
            unneeded=lambda: () if self.unneeded is None or self.split else self.unneeded(),
        )

    @property
    def device(self) -> torch.device:
        """The device of token ids; with a device map, the device of the first layer; offloaded, where it computes."""
        return input_device(self.module)

    @property
    def split(self) -> bool:
        """Whether this process holds only a part of the weights. Every process must then send the same requests."""
        return is_split(self.module)

    @property
    def plain(self) -> HFModel:
        """The same model without the chat template: itself, or one that shares its weights and their checksums.

        Methods that access the model's internals (covariance statistics, targets, contexts, traces) use plain text and
        cache their results under its ``digest``, whether prompts use a chat template or not.
        """
        if not self.chat:
            return self
        if self._plain is None:
            self._plain = HFModel(id=self.id, module=self.module, tokenizer=self.tokenizer)
            self._plain._sums, self._plain._adaptors = self._sums, self._adaptors  # noqa: SLF001  its own kind
        return self._plain

    @property
    def digest(self) -> str:
        """Identify what the model computes now. Only tensors that changed since the last call are read again.

        It covers weights, open adaptors, configuration, tokenizer, and whether prompts become chat turns.
        """
        sums = self._sums.of(self.module, self._adaptors, fresh=False)
        weights = digest_of(self.module, sums, self._adaptors)
        return hashlib.sha256(f"{weights} {self._around}".encode()).hexdigest()[:32]

    def state(self) -> Mapping[str, object]:
        """Return marks by name (``fingerprint``), with every weight read again; ``digest`` is correct afterwards."""
        return fingerprint(self.module, self._sums.of(self.module, self._adaptors, fresh=True), self._adaptors)

    def recheck(self) -> None:
        """Update ``digest`` after writes through ``.data``, such as a merge of adapters, without reading every weight.

        It compares 64 values of each tensor with those of the last call. ``state`` finds a change of any value.
        """
        self._sums.recheck(self.module)

    def patch(self) -> Patch:
        """Return a context that adds updates to weights and restores them bit for bit."""
        self._runner.about_to_change()
        return Patch(self.module, tuple(self._recorders), self._chain)

    def adapt(
        self, layer: str, forward: LayerForward, state: Mapping[str, torch.Tensor], *, router: Adaptor | None = None
    ) -> Adaptor:
        """Return a context in which ``forward`` changes the output of the module ``layer``; no parameter changes.

        ``forward(call, state)`` must be a function at module level. It gets a ``LayerCall`` and the tensors of
        ``state``, and returns the new output. The digest covers both. With an empty state nothing changes.

        ``router``: an open adaptor of an earlier layer, whose decision for each row ``forward`` gets as
        ``call.routed``. Raises EditFailed for an unknown layer and for a function that holds values.
        """
        self._runner.about_to_change()
        return Adaptor(self.module, layer, forward, dict(state), self._adaptors, router)

    @property
    def adaptors(self) -> tuple[Adaptor, ...]:
        """The active adaptors, in order of opening."""
        return tuple(active(self._adaptors))

    @uninterruptible_context
    def chained(self) -> Iterator[PatchStack]:
        """Remove stacked patches together when the context ends.

        ::

            with model.chained() as chain, ExitStack() as stack:
                for edit in edits:
                    stack.enter_context(editor.edit(session, [edit]))
                    chain.settle()
        """
        with PatchStack(self.module) as chain:
            self._chain = chain
            try:
                yield chain
            finally:
                self._chain = None

    @uninterruptible_context
    def unedited(self) -> Iterator[None]:
        """Compute with the original weights, and without adaptors, in the block."""
        with without_adaptors(), self._chain.suspended() if self._chain else nullcontext():
            yield

    @uninterruptible_context
    def recording(self) -> Iterator[RecordedUpdates]:
        """Record the updates of patches opened in the block, while they are open; needs memory for copies.

        ::

            with model.recording() as changes, editor.edit(session, edits):
                changes.deltas()
        """
        changes = RecordedUpdates()
        self._recorders.append(changes)
        try:
            yield changes
        finally:
            self._recorders.remove(changes)

    def device_meter(self) -> DeviceMeter | None:
        """Return a meter for the peak memory of the model's accelerators; None on a CPU."""
        devices = {parameter.device for parameter in self.module.parameters() if parameter.device.type == "cuda"}
        return DeviceMeter(devices=tuple(sorted(devices, key=str))) if devices else None

    def passes(self) -> ForwardCalls:
        """The number of forward passes of this process so far."""
        return COUNTER.now()

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return one result per request, in order; ContextOverflow for a prompt that is too long."""
        return in_step(self.module, self._runner.generate, requests)

    def complete(self, requests: Sequence[Generate | Score], following: NextRequests) -> None:
        """Pass results to ``following`` as they arrive. Rows of the requests that follow join those under way.

        With split weights, only results are followed by requests: processes see an arrival at different times.
        """

        def compared(results: Mapping[int, Completed], ended: bool) -> Sequence[Generate | Score]:  # noqa: FBT001
            if self.split and not results:
                return ()
            more = following(results, ended)
            compare_requests(self.module, more)
            return more

        in_step(self.module, lambda some: self._runner.complete(some, compared), requests)

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Return one result per request, in order: natural log-probabilities, summed over the continuation's tokens."""
        return in_step(self.module, self._runner.score, requests)

    def _report(self, finished: float) -> None:
        if self.on_progress is not None:
            self.on_progress(int(finished))

    def encode(self, prompt: str) -> list[int]:
        """Return the token ids of a prompt as ``generate`` reads it, with special tokens and chat template."""
        return self._coder.prompts([prompt])[0]

    def encode_continuation(self, prompt: str, text: str) -> list[int]:
        """Return the token ids of ``text`` after ``prompt`` as ``score`` reads it, without those of the prompt."""
        return self._coder.continuation(prompt, self.encode(prompt), text)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ``ids`` without special tokens."""
        return self._coder.decode(ids)

    @property
    def backends(self) -> Mapping[str, str]:
        """The backends tried so far: empty if correct, otherwise what was wrong."""
        return {str(mode): reason for mode, reason in self._runner.backends.why.items()}

    @property
    def batch_size(self) -> int:
        """The number of rows in the last batch; 0 before the first call."""
        return self._runner.size.last


def _around(module: Any, coder: PromptTokenizer, ends: frozenset[int]) -> str:
    """Everything besides the weights that determines a completion, except its location and version.

    The tokens that end a text, and the one for an empty prompt, may come from the configuration, which is included, or
    from the tokenizer and ``generation_config``.
    """
    tokenizer, config = coder.tokenizer, module.config.to_dict()
    for aside in ("_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype"):
        config.pop(aside, None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    template = (tokenizer.chat_template, CONTINUATION_FORMAT, "scored as a message") if coder.chat else None
    parts: tuple[object, ...] = (json.dumps(config, sort_keys=True, default=str), words, coder.chat, template)
    if ends != _ids(config.get("eos_token_id")) or coder.begin != config.get("bos_token_id"):
        parts += (sorted(ends), coder.begin)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _context(module: Any, tokenizer: Any) -> int:
    return context_of(module) or min(int(tokenizer.model_max_length), UNBOUNDED)


def _end_of_text(module: Any, tokenizer: Any) -> frozenset[int]:
    """Return every token that ends a text: chat models have several."""
    return _ids(tokenizer.eos_token_id) | _ids(getattr(module.generation_config, "eos_token_id", None))


def _ids(named: Any) -> frozenset[int]:
    """Return token ids from a configuration: one, several or none."""
    return frozenset(int(one) for one in (named if isinstance(named, (list, tuple)) else [named]) if one is not None)
