"""Test which backends are correct for a model, with a small probe at first use.

The probe covers all parts of decoding: rows of unequal length, a second step, rows that leave, rows that join. Its
logits must equal those of a whole forward pass over each row separately. A second probe reads several tokens after
cached ones and discards some of them. If it fails, the backend is used without guesses and without keys and values of
other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from attrs import define, field
from torch import Tensor

from ke_core.plugin import ModelUnavailable, NotFinite
from ke_plugin_hf.adaptors import without_adaptors
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.decoding.forward import NO_PREFIX, Forward, Mode, Prefix, input_device
from ke_plugin_hf.decoding.memory import out_of_memory
from ke_plugin_hf.decoding.sampling import HALF_RANGE

PREFIX, SUFFIXES, STEPS = 20, (3, 6, 5), 3
# Fractions of the logits' spread. Rotary angles and norms are float32 in a float64 LLaMA. In half precision, two
# correct backends differ by some percent, depending on the model: four times the difference of its ordinary passes. A
# lost prefix differs by 100%.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 0.02}
HALF, NOISE, MOST = 0.1, 4.0, 0.4


@define(eq=False)
class Backends:
    """The backends of one model. ``why``: for each tested backend, empty if it is correct, otherwise what was wrong."""

    module: Any
    why: dict[Mode, str] = field(factory=dict, init=False)
    _forwards: dict[Mode, Forward] = field(factory=dict, init=False)

    def best(self, length: int, *, prefix: bool) -> Forward | None:
        """Return the fastest correct backend for texts of ``length`` tokens with or without a shared prefix.

        None if there is none: each row must then run separately.
        """
        modes: tuple[Mode, ...] = ("shared", "copied", "plain") if prefix else ("plain",)
        for mode in modes:
            if not self.supports(mode, length):
                continue
            if mode not in self.why:
                self._forwards[mode] = Forward(self.module, mode)
                with without_adaptors():  # whether a mode works depends on the model only
                    self.why[mode] = self._try(self._forwards[mode])
            if not self.why[mode]:
                return self._forwards[mode]
        return None

    def supports(self, mode: Mode, length: int) -> bool:
        """Return whether a backend is correct for texts of ``length`` tokens, if it is correct for short ones."""
        return mode != "shared" or length <= reach(self.module)

    def _try(self, forward: Forward) -> str:
        rows, tolerance = _references(self.module)  # computed each time, because the weights may have changed since
        wrong = _wrong(_compare, forward, rows, tolerance)
        if not wrong:
            forward.extends = not _wrong(_compare_extended, forward, rows, tolerance)
        return wrong


Rows = list[tuple[tuple[int, ...], Tensor]]


def _wrong(compare: Callable[[Forward, Rows], float], forward: Forward, rows: Rows, tolerance: float) -> str:
    """Return what is wrong with a backend by that comparison; empty if nothing is."""
    try:
        worst = compare(forward, rows)
    except Exception as error:  # a model may raise anything if it does not support this backend
        if out_of_memory(error):
            raise
        return f"{type(error).__name__}: {error}"
    if worst <= tolerance:
        return ""
    return f"logits differ from a whole forward pass by {worst:.1e} of their spread"


def reach(module: Any) -> int:
    """Return the longest text whose every token is visible to every layer: the shared form does not support windows."""
    config = module.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and set(kinds) == {"full_attention"}:
        return 2**31
    limits = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return min((limit for limit in limits if isinstance(limit, int)), default=2**31)


def _references(module: Any) -> tuple[Rows, float]:
    """Return rows of random tokens with a common prefix, each with its logits [T, vocabulary] from a separate forward
    pass.

    Also returns the tolerance. Raises ModelUnavailable for a model that attends to later tokens, or whose context is
    too short for any such row, and NotFinite for logits that are NaN.
    """
    draw = torch.Generator().manual_seed(0)
    vocabulary = int(module.get_input_embeddings().weight.shape[0])
    device = input_device(module)
    context = context_of(module)
    shared = PREFIX if context is None else min(PREFIX, context - max(SUFFIXES) - STEPS)
    if shared < 1:
        raise ModelUnavailable(
            f"a context of {context} tokens is too short to test the model", hint="use a model with a longer context"
        )
    prefix = torch.randint(vocabulary, (shared,), generator=draw)
    rows, noise = [], 0.0
    for length in SUFFIXES:
        ids = torch.cat([prefix, torch.randint(vocabulary, (length + STEPS,), generator=draw)]).to(device)
        with torch.no_grad():
            logits = module(input_ids=ids[None], use_cache=False).logits[0]
            short = module(input_ids=ids[None, :shared], use_cache=False).logits[0]
        if bool(logits.isnan().any()):
            raise NotFinite("the model's logits contain NaN even for a short text", hint=HALF_RANGE)
        noise = max(noise, _distance(logits[:shared], short))
        if noise > (MOST if logits.dtype.itemsize < 4 else 0.01):
            raise ModelUnavailable(
                "the model is not causal: its logits for a token depend on later ones",
                hint="it is an encoder, not a causal language model; use one that generates text",
            )
        rows.append((tuple(ids.tolist()), logits))
    return rows, max(TOLERANCE.get(logits.dtype, HALF), min(NOISE * noise, MOST))


def _compare(forward: Forward, rows: Rows) -> float:
    """Read two rows, add a third, step, remove one, and step.

    Returns the largest distance of all their logits.
    """
    (first, want_first), (second, want_second), (third, want_third) = rows
    ends = [len(ids) - STEPS for ids, _logits in rows]
    prefix = _probe_prefix(forward, first)
    begin = len(prefix.ids)
    logits, state = forward.prefill(prefix, [first[begin : ends[0]], second[begin : ends[1]]])
    pairs = [(logits[:, -1], torch.stack([want_first[ends[0] - 1], want_second[ends[1] - 1]]))]
    logits, joined = forward.prefill(prefix, [third[begin : ends[2]]])
    pairs.append((logits[:, -1], want_third[ends[2] - 1][None]))
    state.join(joined)
    tokens = [[first[ends[0]]], [second[ends[1]]], [third[ends[2]]]]
    wanted = torch.stack([want_first[ends[0]], want_second[ends[1]], want_third[ends[2]]])
    pairs.append((forward.step(state, tokens)[:, -1], wanted))
    state.keep([1, 2])
    tokens = [[second[ends[1] + 1]], [third[ends[2] + 1]]]
    wanted = torch.stack([want_second[ends[1] + 1], want_third[ends[2] + 1]])
    pairs.append((forward.step(state, tokens)[:, -1], wanted))
    return _farthest(pairs)


def _compare_extended(forward: Forward, rows: Rows) -> float:
    """Read two tokens of two rows, of which the second of one row is discarded, step, and read one row again from its
    cached keys and values, next to a new one.

    Returns the largest distance of all their logits.
    """
    (first, want_first), (second, want_second), _third = rows
    ends = [len(ids) - STEPS for ids, _logits in rows]
    prefix = _probe_prefix(forward, first)
    begin = len(prefix.ids)
    _logits, state = forward.prefill(prefix, [first[begin : ends[0]], second[begin : ends[1]]])
    logits = forward.step(state, [[first[ends[0]]] * 2, second[ends[1] : ends[1] + 2]])
    state.forget([1, 0])
    pairs = [(logits[0, 0], want_first[ends[0]]), (logits[1], want_second[ends[1] : ends[1] + 2])]
    logits = forward.step(state, [[first[ends[0] + 1]], [second[-1]]])
    pairs.append((logits[:, -1], torch.stack([want_first[ends[0] + 1], want_second[-1]])))
    own = len(second) - begin  # longer than the new row, so that at least two of its tokens are not read again
    known = tuple((keys[:, -own:-1], values[:, -own:-1]) for keys, values in state.own(1))
    logits, _state = forward.prefill(prefix, [second[begin:], first[begin : ends[0]]], known=[known, ()])
    pairs.append((logits[:, -1], torch.stack([want_second[-1], want_first[ends[0] - 1]])))
    return _farthest(pairs)


def _probe_prefix(forward: Forward, ids: tuple[int, ...]) -> Prefix:
    return NO_PREFIX if forward.mode == "plain" else forward.prefix(ids[: len(ids) - STEPS - SUFFIXES[0]])


def _farthest(pairs: list[tuple[Tensor, Tensor]]) -> float:
    # Not Python's max, which ignores NaN unless it is first.
    return float(torch.tensor([_distance(got, want) for got, want in pairs], dtype=torch.float64).max())


def _distance(got: Tensor, want: Tensor) -> float:
    """Return the norm of the difference over the norm of the centered reference, for the worst row."""
    got, want = double(got), double(want)
    spread = torch.linalg.vector_norm(want - want.mean(-1, keepdim=True), dim=-1)
    return float((torch.linalg.vector_norm(got - want, dim=-1) / spread).max())


NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")


def context_of(module: Any) -> int | None:
    """Return the maximum number of tokens; None if the model has no limit (ALiBi).

    With LongRoPE, it is the length at which the rotary angles change (Phi-3 with 128k: 4,096 tokens). transformers
    changes them for a whole batch, cached shorter texts included, as soon as one row is longer.
    """
    config = module.config.get_text_config()
    rotary = getattr(config, "rope_parameters", None) or {}
    for own in (rotary, *(kind for kind in rotary.values() if isinstance(kind, dict))):
        if own.get("rope_type") == "longrope":
            return int(own["original_max_position_embeddings"])
    for name in NAMES:
        length = getattr(config, name, None)
        if isinstance(length, int) and length > 0:
            return length
    return None
