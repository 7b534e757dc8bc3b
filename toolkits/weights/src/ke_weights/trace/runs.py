"""One pass over a clean row and its corrupted copies, with everything recorded that interventions need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache

from ke_core.plugin import KEError
from ke_plugin_hf.adaptors import first, hidden_in
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import Layer, ModuleMap
from ke_weights.tail import keeps_keys
from ke_weights.trace.noise import Noise
from ke_weights.trace.settings import PARTS, Part

HEAD_ROWS = 64  # rows whose logits are computed at a time


@frozen(kw_only=True, eq=False)
class TracePrompt:
    """Token ids, the subject's range [b, e) in them, and the noise to add there, [samples, e - b, d]."""

    ids: tuple[int, ...]
    subject: tuple[int, int]
    noise: Tensor

    @property
    def samples(self) -> int:
        """Number of corrupted copies."""
        return len(self.noise)

    def rows(self, device: torch.device) -> Tensor:
        """Return the prompt once clean and ``samples`` times to corrupt, [1 + samples, T]."""
        return torch.tensor(self.ids, device=device).expand(1 + self.samples, -1)

    def corrupt(self, embeddings: Tensor) -> Tensor:
        """Return embeddings [1 + samples, T, d] with the noise on the subject of all rows but the first.

        Added in float64 and rounded once, as in the published code.
        """
        made = embeddings.clone()
        start, end = self.subject
        noisy = made[1:, start:end].cpu().double() + self.noise
        made[1:, start:end] = noisy.to(made)
        return made


def prompt(ids: Sequence[int], subject: tuple[int, int], noise: Noise, samples: int, width: int) -> TracePrompt:
    """Return a prompt with its noise; ``width`` is that of the embeddings."""
    return TracePrompt(ids=tuple(ids), subject=subject, noise=noise.sample(samples, subject[1] - subject[0], width))


@frozen(kw_only=True, eq=False)
class Recording:
    """Outputs of the blocks, row 0 clean and the others corrupted.

    ``entering``: input of each block, and output of the last, n + 1 tensors [1 + samples, T, d]; ``outputs``: of each
    block's MLP and attention. ``answer`` is the clean run's next token, ``high`` and ``low`` its probability in the
    clean and, on average, in the corrupted rows. ``cache``: keys and values of the corrupted rows.
    """

    prompt: TracePrompt
    entering: tuple[Tensor, ...]
    outputs: dict[Part, tuple[Tensor, ...]]
    answer: int
    high: float
    low: float
    cache: Cache | None


def part_of(layer: Layer, part: Part) -> nn.Module:
    """Return the module with the output of a block's MLP or attention."""
    return layer.mlp if part == "mlp" else layer.attention_out


def embedding_of(modules: ModuleMap) -> nn.Module:
    """Return the token embedding; positions are added after it."""
    found: nn.Module = modules.module.get_input_embeddings()  # type: ignore[operator]  # untyped in transformers
    return found


def clean_answer(modules: ModuleMap, ids: Sequence[int]) -> tuple[int, float]:
    """Return the most probable next token and its probability."""
    row = torch.tensor([list(ids)], device=modules.device)
    with frozen_module(modules.module):
        logits = forward(modules.module, row, torch.ones_like(row)).logits[0, -1]
    return _top(logits, modules.dtype)


def record(modules: ModuleMap, trace_prompt: TracePrompt) -> Recording:
    """Run the clean row and its corrupted copies together, and record inputs and outputs of every block."""
    ids = trace_prompt.rows(modules.device)
    entering: list[Tensor] = []
    outputs: dict[Part, list[Tensor]] = {part: [] for part in PARTS}
    cache = DynamicCache() if keeps_keys(modules) else None
    more: dict[str, Any] = {"past_key_values": cache, "use_cache": True} if cache is not None else {}
    with frozen_module(modules.module), Hooks() as hooks:
        hooks.change(embedding_of(modules), trace_prompt.corrupt)
        for layer in modules.layers:
            hooks.before(layer.block, lambda args, kwargs: entering.append(hidden_in(args, kwargs)))
            for part in PARTS:
                hooks.after(part_of(layer, part), _keep(outputs[part], ids.shape))
        hooks.after(modules.layers[-1].block, entering.append)
        logits = forward(modules.module, ids, torch.ones_like(ids), **more).logits[:, -1]
    answer, high = _top(logits[0], modules.dtype)
    for kept in cache.layers if cache is not None else ():
        kept.keys, kept.values = kept.keys[1:], kept.values[1:]
    return Recording(
        prompt=trace_prompt,
        entering=tuple(entering),
        outputs={part: tuple(found) for part, found in outputs.items()},
        answer=answer,
        high=high,
        low=float(probability(logits[1:], answer, modules.dtype).mean()),
        cache=cache,
    )


def probability(logits: Tensor, answer: int, dtype: torch.dtype) -> Tensor:
    """Return the probability of ``answer`` for each row of logits [rows, V]."""
    return logits.to(dtype).softmax(-1)[:, answer]


def state_probability(modules: ModuleMap, states: Tensor, answer: int) -> Tensor:
    """Return the probability of ``answer`` for states of the last block [rows, d]."""
    some = (states[start : start + HEAD_ROWS] for start in range(0, len(states), HEAD_ROWS))
    return torch.cat([probability(modules.logits(rows), answer, modules.dtype) for rows in some])


def _keep(into: list[Tensor], shape: torch.Size) -> Callable[[Tensor], None]:
    """Return a hook that records outputs; some families' layers return [tokens, d], others [rows, T, d]."""
    return lambda output: into.append(first(output).reshape(*shape, -1))


def _top(logits: Tensor, dtype: torch.dtype) -> tuple[int, float]:
    found = logits.to(dtype).softmax(-1)
    if not bool(torch.isfinite(found).all()):
        raise KEError("the model's output contains NaN or infinity", hint="load it with --dtype float32")
    answer = int(found.argmax())
    return answer, float(found[answer])
