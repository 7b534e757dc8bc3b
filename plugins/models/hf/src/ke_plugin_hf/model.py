"""A transformers model as the engine and the editors see it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from attrs import define, field

from ke_core.plugin import (
    CONTINUATION_FORMAT,
    ForwardCalls,
    Generate,
    Generated,
    Score,
    Scored,
    uninterruptible_context,
)
from ke_plugin_hf.adaptors import Adaptor, LayerForward, active
from ke_plugin_hf.context import context_of
from ke_plugin_hf.decoding.memory import DeviceMeter, RowBatchSize
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.runner import LocalRunner
from ke_plugin_hf.decoding.tokens import PromptTokenizer
from ke_plugin_hf.fingerprint import Checksums, digest_of, fingerprint
from ke_plugin_hf.guard import Patch, PatchStack, RecordedUpdates

UNBOUNDED = 10**9  # a model that names no longest text (ALiBi), or a tokenizer that stands for "no limit"


@define(eq=False, kw_only=True)
class HFModel:
    """A causal language model in this process: ``LanguageModel`` and ``OpenModel``.

    ``chat``: a prompt is put as one user turn of the tokenizer's chat template, and what is written is
    joined to it as a continuation. Made by ``load`` or ``from_parts``.
    """

    id: str
    module: Any
    tokenizer: Any
    chat: bool = False
    on_progress: Callable[[int], None] | None = field(default=None, init=False)
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
        """Take a model and its tokenizer as they are: in evaluation mode, without gradients from now on."""
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
        self._runner = LocalRunner(
            module=self.module,
            coder=self._coder,
            eos=ends,
            context=self.context,
            digest=lambda: self.digest,
            adapted=lambda: bool(self.adaptors),
            size=RowBatchSize(self.device),
            report=self._report,
        )

    @property
    def device(self) -> torch.device:
        """Where token ids go; with a device map, where the first layer lies."""
        device: torch.device = self.module.get_input_embeddings().weight.device
        return device

    @property
    def plain(self) -> HFModel:
        """The same model without the chat template: itself, or one that shares its weights and their checksums.

        What methods that open the model find in it (second moments, targets, contexts, traces) is found in plain text,
        so its ``digest`` is what they keep it under, however the model is asked.
        """
        if not self.chat:
            return self
        if self._plain is None:
            self._plain = HFModel(id=self.id, module=self.module, tokenizer=self.tokenizer)
            self._plain._sums, self._plain._adaptors = self._sums, self._adaptors  # noqa: SLF001  its own kind
        return self._plain

    @property
    def digest(self) -> str:
        """Name what the model computes now; only tensors written to since the last call are read again.

        It covers weights, open adaptors, configuration, tokenizer, and whether prompts become chat turns.
        """
        sums = self._sums.of(self.module, self._adaptors, fresh=False)
        weights = digest_of(self.module, sums, self._adaptors)
        return hashlib.sha256(f"{weights} {self._around}".encode()).hexdigest()[:32]

    def state(self) -> Mapping[str, object]:
        """Marks by name (``fingerprint``), with every weight read afresh; ``digest`` is right afterwards."""
        return fingerprint(self.module, self._sums.of(self.module, self._adaptors, fresh=True), self._adaptors)

    def patch(self) -> Patch:
        """A context that adds updates to weights and takes them back bit for bit."""
        self._runner.about_to_change()
        return Patch(self.module, tuple(self._recorders), self._chain)

    def adapt(self, layer: str, forward: LayerForward, state: Mapping[str, torch.Tensor]) -> Adaptor:
        """A context in which ``forward`` changes the output of the module called ``layer``; no parameter changes.

        ``forward(call, state)`` is a function at the top of a module. It gets a ``LayerCall`` and the tensors of
        ``state``, and returns the new output. The digest covers both. With an empty state nothing is changed. Raises
        EditFailed for an unknown layer and for a function that holds values.
        """
        self._runner.about_to_change()
        return Adaptor(self.module, layer, forward, dict(state), self._adaptors)

    @property
    def adaptors(self) -> tuple[Adaptor, ...]:
        """The active adaptors, in the order in which they were opened."""
        return tuple(active(self._adaptors))

    @uninterruptible_context
    def chained(self) -> Iterator[PatchStack]:
        """Patches opened from now on, one on top of another, are taken back together when the context ends.

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
    def recording(self) -> Iterator[RecordedUpdates]:
        """Keep what patches opened from now on add, for as long as they are open; it costs the updates' memory.

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
        """What tells how far memory on the model's accelerators rises; None on the processor."""
        devices = {parameter.device for parameter in self.module.parameters() if parameter.device.type == "cuda"}
        return DeviceMeter(devices=tuple(sorted(devices, key=str))) if devices else None

    def passes(self) -> ForwardCalls:
        """How often models of this process were run so far."""
        return COUNTER.now()

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """One result a request, in order; ContextOverflow in the place of a prompt that is too long."""
        return self._runner.generate(requests)

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """One result a request, in order: natural log-probabilities, summed over each continuation's tokens."""
        return self._runner.score(requests)

    def _report(self, finished: float) -> None:
        if self.on_progress is not None:
            self.on_progress(int(finished))

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a prompt as ``generate`` reads it, special tokens and chat template included."""
        return self._coder.prompts([prompt])[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens left out."""
        return self._coder.decode(ids)

    @property
    def ways(self) -> Mapping[str, str]:
        """The ways of running this model tried so far: empty if one holds, else what was wrong with it."""
        return {str(mode): reason for mode, reason in self._runner.modes.why.items()}

    @property
    def batch_size(self) -> int:
        """How many rows were run together last; 0 before the first call."""
        return self._runner.size.last


def _around(module: Any, coder: PromptTokenizer, ends: frozenset[int]) -> str:
    """What beside the weights decides a completion; not where it was loaded from, nor by which version.

    The tokens that end a text, and the one that stands for an empty prompt, may be those of the configuration, which
    is in it, or those of the tokenizer and of ``generation_config``.
    """
    tokenizer, config = coder.tokenizer, module.config.to_dict()
    for aside in ("_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype"):
        config.pop(aside, None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    template = (tokenizer.chat_template, CONTINUATION_FORMAT, "scored as it is written") if coder.chat else None
    told: tuple[object, ...] = (json.dumps(config, sort_keys=True, default=str), words, coder.chat, template)
    if ends != _ids(config.get("eos_token_id")) or coder.begin != config.get("bos_token_id"):
        told += (sorted(ends), coder.begin)
    return hashlib.sha256(repr(told).encode()).hexdigest()


def _context(module: Any, tokenizer: Any) -> int:
    return context_of(module) or min(int(tokenizer.model_max_length), UNBOUNDED)


def _end_of_text(module: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a text: chat models name several."""
    return _ids(tokenizer.eos_token_id) | _ids(getattr(module.generation_config, "eos_token_id", None))


def _ids(named: Any) -> frozenset[int]:
    """Token ids as configurations give them: one, several or none."""
    return frozenset(int(one) for one in (named if isinstance(named, (list, tuple)) else [named]) if one is not None)
