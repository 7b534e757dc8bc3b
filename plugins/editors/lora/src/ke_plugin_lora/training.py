"""Training an adapter: Adam on the mean negative log-likelihood of the labels, with the model itself unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import Edit, EditFailed, Progress
from ke_plugin_lora.adapter import Adapter
from ke_plugin_lora.values import AdapterConfig
from ke_weights.plugin import (
    OpenModel,
    as_rewrites,
    encode,
    forward,
    frozen_module,
    padded,
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
    module: nn.Module, adapter: Adapter, examples: Sequence[Example], config: AdapterConfig, *,
    steps: int, device: torch.device, seed: int, progress: Progress,
) -> None:  # fmt: skip
    """Make ``steps`` passes over ``examples``, each in a new order sampled from ``seed``.

    Dropout applies to the adapter's inputs only. Raises EditFailed, which names the edit.
    """
    order = torch.Generator().manual_seed(seed)
    with frozen_module(module), torch.enable_grad():
        try:
            for parameter in adapter.parameters:
                parameter.requires_grad = True
            for dropout in adapter.dropouts:
                dropout.training = True
            adam = torch.optim.Adam(adapter.parameters, lr=config.lr)
            for step in range(steps):
                for chunk in torch.split(torch.randperm(len(examples), generator=order), config.batch):
                    loss = losses(module, [examples[at] for at in chunk.tolist()], device).mean()
                    adam.zero_grad()
                    loss.backward(inputs=adapter.parameters)  # type: ignore[no-untyped-call]  # untyped in torch
                    adam.step()
                progress.advance("adapter", step + 1, steps)
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
    ids, mask = padded([one.ids[:-1] for one in examples], device)
    skipped = min(one.start for one in examples) - 1  # logits before the first label are not needed
    keep = ids.shape[1] - skipped
    takes = inspect.signature(module.forward).parameters
    logits: Tensor = forward(module, ids, mask, **({KEEP: keep} if KEEP in takes else {})).logits[:, -keep:]
    row, column, token, share = zip(
        *(
            (number, at - 1 - skipped, one.ids[at], 1 / (len(one.ids) - one.start))
            for number, one in enumerate(examples)
            for at in range(one.start, len(one.ids))
        ),
        strict=True,
    )
    where = logits.device
    scored = logits[list(row), list(column)]
    logs = scored.to(torch.promote_types(scored.dtype, torch.float32)).log_softmax(-1)
    chosen = logs.gather(1, torch.tensor(token, device=where)[:, None])[:, 0]
    zero = torch.zeros(len(examples), dtype=logs.dtype, device=where)
    shares = torch.tensor(share, dtype=logs.dtype, device=where)
    found = zero.index_add(0, torch.tensor(row, device=where), -chosen * shares)
    if not bool(found.isfinite().all()):
        name = examples[int((~found.isfinite()).nonzero()[0, 0])].edit
        raise EditFailed(
            f"the loss of edit {name!r} is not finite while training its adapter",
            hint="lower the learning rate, or load the model with --dtype float32",
        )
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
