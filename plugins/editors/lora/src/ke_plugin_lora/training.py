"""Training an adapter: Adam on the mean negative log-likelihood of the labels, with the model itself unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, frozen
from torch import Tensor, nn

from ke_core.plugin import Edit, Progress
from ke_plugin_lora.adapter import Adapter
from ke_plugin_lora.values import LoraSettings
from ke_weights.plugin import (
    OpenModel,
    as_rewrites,
    encode,
    forward,
    frozen_module,
    prompt_lengths,
    require_finite,
    scored_tokens,
    target_ids,
    uninterruptible_context,
)

EVALUATED = 16  # examples per batch when losses are measured
KEEP = "logits_to_keep"


@uninterruptible_context
def seed_generators(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's generators while the block runs, and restore their state afterwards."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type):
        torch.manual_seed(seed)
        yield


def train(
    module: nn.Module, adapter: Adapter, examples: Sequence[Example], recipe: LoraSettings, *,
    device: torch.device, seed: int, progress: Progress,
) -> int:  # fmt: skip
    """Make at most ``epochs`` epochs over ``examples``, each in a new order sampled from ``seed``. Return their number.

    A batch whose mean loss is below ``stop_loss`` is skipped, and training stops after an epoch whose mean loss is.
    Dropout applies to the adapter's inputs only. Raises EditFailed, which names the edit.
    """
    order = torch.Generator().manual_seed(seed)
    with frozen_module(module), torch.enable_grad():
        try:
            for parameter in adapter.parameters:
                parameter.requires_grad = True
            for dropout in adapter.dropouts:
                dropout.training = True
            adam = torch.optim.Adam(adapter.parameters, lr=recipe.lr)
            for epoch in progress.track(range(recipe.epochs), "training the adapter"):
                total = 0.0
                for chunk in torch.split(torch.randperm(len(examples), generator=order), recipe.batch):
                    loss = losses(module, [examples[at] for at in chunk.tolist()], device).mean()
                    total += float(loss.detach()) * len(chunk)
                    if float(loss.detach()) >= recipe.stop_loss:
                        adam.zero_grad()
                        loss.backward(inputs=adapter.parameters)  # type: ignore[no-untyped-call]  # untyped in torch
                        adam.step()
                if total / len(examples) < recipe.stop_loss:
                    return epoch + 1
            return recipe.epochs
        finally:
            for parameter in adapter.parameters:
                parameter.requires_grad, parameter.grad = False, None
            for dropout in adapter.dropouts:
                dropout.training = False


def example_losses(module: nn.Module, examples: Sequence[Example], device: torch.device) -> dict[str, float]:
    """Return the current loss of each example by edit, in nats per token."""
    found: dict[str, float] = {}
    with frozen_module(module):
        for start in range(0, len(examples), EVALUATED):
            chunk = examples[start : start + EVALUATED]
            values = losses(module, chunk, device).tolist()
            found |= {one.edit: value for one, value in zip(chunk, values, strict=True)}
    return found


def losses(module: nn.Module, examples: Sequence[Example], device: torch.device) -> Tensor:
    """Return the mean negative log-likelihood of each example's labels, [examples], float32 or better."""
    batch = scored_tokens([(one.ids[: one.start], one.ids[one.start :]) for one in examples], device)
    skipped = min(one.start for one in examples) - 1  # logits before the first label are not needed
    keep = batch.ids.shape[1] - skipped
    takes = inspect.signature(module.forward).parameters
    with prompt_lengths(batch.prompts):
        out = forward(module, batch.ids, batch.mask, **({KEEP: keep} if KEEP in takes else {}))
    logits: Tensor = out.logits[:, -keep:]
    found = batch.nll(evolve(batch, column=batch.column - skipped).pick(logits))
    require_finite(found, [one.edit for one in examples], "while training its adapter")
    return found


@frozen(kw_only=True)
class Example:
    """``ids[start:]`` are the labels, each predicted from all earlier ids. ``edit`` is the edit's id."""

    edit: str
    ids: tuple[int, ...]
    start: int


def target_examples(model: OpenModel, edits: Sequence[Edit]) -> list[Example]:
    """Return examples with the new object as labels after the cloze. Raises UnsupportedEdit."""
    tokenizer, found = model.tokenizer, []
    for made in as_rewrites(edits, tokenizer, model.context):
        prompt = encode(tokenizer, made.prompt)[0]
        target = target_ids(tokenizer, made.prompt, made.target)
        found.append(Example(edit=made.id, ids=(*prompt, *target), start=len(prompt)))
    return found


def statement_examples(tokenizer: Any, edits: Sequence[Edit]) -> list[Example]:
    """Return examples with every token of the statement except the first as a label."""
    texts = {edit.id: encode(tokenizer, edit.statement.strip())[0] for edit in edits}
    return [Example(edit=name, ids=tuple(ids), start=1) for name, ids in texts.items()]


def unsupported_examples(examples: Sequence[Example], context: int) -> Mapping[str, str]:
    """Return examples without a label or longer than the context, by edit id with the reason."""
    empty = {one.edit: "its statement has fewer than two tokens" for one in examples if len(one.ids) <= one.start}
    long = {
        one.edit: f"it has {len(one.ids)} tokens, more than the context of {context}"
        for one in examples
        if len(one.ids) > context
    }
    return empty | long
