"""Fine-tuning of MLP output projections outside the model: its weights are read, never written.

The loss is the mean over a batch's edits of one of two objectives (t tokens o_1 .. o_t of the new object):

    target         -1/t sum_j log p(o_j | prompt, o_1 .. o_{j-1})          (teacher forcing)
    prompt-last    -1/t sum_j log p(o_j | prompt)                          (the released code of ROME and MEMIT)

Adam minimizes it over updates D_l of the projections' weights and biases, starting at D_l = 0. With a bound, each
element of D_l is clamped to [-eps, eps] after every step (the infinity-norm ball of Zhu et al. 2020). A projection with
its update is W x + D x. The blocks below the lowest trained one do not change, so they run once per batch. If the model
differs from the module map (norms after the MLP, capped logits), the whole model runs in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal

import torch
from attrs import field, frozen
from torch import Tensor, nn

from ke_core.plugin import Progress
from ke_weights.plugin import (
    Hooks,
    Layer,
    ModuleMap,
    Rewrite,
    TrainingRows,
    encode,
    frozen_module,
    require_finite,
    target_ids,
    training_rows,
    uninterruptible_context,
)


@frozen(kw_only=True)
class FtSettings:
    """``eps`` None means no bound; ``epochs``: passes over the edits, ``batch`` is edits per step.

    ``ending``: ids appended to every target. ``shuffle``: seed of the order of the edits, sampled for each pass; None
    keeps their order. ``whole``: run the whole model in each step, so that adaptors of other edits see whole passes.
    """

    objective: Literal["prompt-last", "target"]
    layers: tuple[int, ...]
    epochs: int
    lr: float
    eps: float | None
    batch: int
    stop_loss: float
    ending: tuple[int, ...] = ()
    shuffle: int | None = None
    whole: bool = False


@frozen(kw_only=True, eq=False)
class ProjectionUpdate:
    """The update of one projection: ``weight`` [out, in], ``bias`` [out] or None; float32 or better."""

    layer: Layer
    weight: Tensor
    bias: Tensor | None

    def added(self, keys: Tensor) -> Tensor:
        """Return D x for the projection's input, [..., in] to [..., out]."""
        return nn.functional.linear(keys.to(self.weight.dtype), self.weight, self.bias)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The updates by parameter name."""
        named = {self.layer.weight_name: self.weight}
        return named if self.bias is None else named | {f"{self.layer.projection_name}.bias": self.bias}


@frozen(kw_only=True, eq=False)
class FtResult:
    """Updates by parameter name, the losses of each edit before them (nats per token), and the number of epochs.

    ``losses`` returns the losses of the model as it is when it is called.
    """

    updates: Mapping[str, Tensor]
    before: tuple[float, ...]
    losses: Callable[[], tuple[float, ...]]
    epochs: int


@frozen(kw_only=True, eq=False)
class FtBatch:
    """The edits of one step, and their rows."""

    names: tuple[str, ...]
    rows: TrainingRows = field(repr=False)


def train(
    modules: ModuleMap, tokenizer: Any, rewrites: Sequence[Rewrite], settings: FtSettings, progress: Progress
) -> FtResult:
    """Train updates that make ``rewrites`` probable. Raises EditFailed with the edit if a loss is not finite."""
    with frozen_module(modules.module):
        batches = list(_batches(modules, tokenizer, rewrites, settings))
        updates = [_zero(modules, modules.layers[layer]) for layer in settings.layers]
        parameters = [tensor for update in updates for tensor in update.tensors.values()]
        adam = torch.optim.Adam(parameters, lr=settings.lr)
        before = _losses(batches, updates)
        epochs = 0
        orders = _orders(len(rewrites), settings)
        with torch.enable_grad(), _attached(updates):
            for _epoch in progress.track(range(settings.epochs), "fine-tuning"):
                epochs += 1
                order = next(orders)
                these = (
                    batches if order is None else _batches(modules, tokenizer, [rewrites[at] for at in order], settings)
                )
                mean = sum(_step(batch, adam, settings) * len(batch.names) for batch in these)
                if mean / len(rewrites) < settings.stop_loss:
                    break
    found = {name: tensor.detach() for update in updates for name, tensor in update.tensors.items()}

    def losses() -> tuple[float, ...]:
        with frozen_module(modules.module):
            return _losses(batches, ())

    return FtResult(updates=found, before=before, losses=losses, epochs=epochs)


def _orders(count: int, settings: FtSettings) -> Iterator[list[int] | None]:
    """Yield the order of the edits of each epoch; None if it is theirs, or if one mini-batch holds all of them."""
    if settings.shuffle is None or count <= settings.batch:
        yield from repeat(None)
    else:
        generator = torch.Generator().manual_seed(settings.shuffle)
        while True:
            yield torch.randperm(count, generator=generator).tolist()


def _step(batch: FtBatch, adam: torch.optim.Optimizer, settings: FtSettings) -> float:
    """Make one step of Adam and apply the bound. Return the mean loss before it. Skip a batch below ``stop_loss``."""
    loss = _loss(batch).mean()
    value = float(loss.detach())
    if value < settings.stop_loss:
        return value
    adam.zero_grad()
    parameters = [tensor for group in adam.param_groups for tensor in group["params"]]
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]  # untyped in torch
    adam.step()
    if settings.eps is not None:
        with torch.no_grad():
            for tensor in parameters:
                tensor.clamp_(-settings.eps, settings.eps)
    return value


def _losses(batches: Sequence[FtBatch], updates: Sequence[ProjectionUpdate]) -> tuple[float, ...]:
    with torch.no_grad(), _attached(updates):
        return tuple(float(value) for batch in batches for value in _loss(batch))


def _loss(batch: FtBatch) -> Tensor:
    """Return the objective of each edit, the mean of -log p over its target's tokens, [edits]."""
    loss = batch.rows.scored.nll(batch.rows.logits())
    require_finite(loss, batch.names, "while fine-tuning")
    return loss


def _batches(
    modules: ModuleMap, tokenizer: Any, rewrites: Sequence[Rewrite], settings: FtSettings
) -> Iterator[FtBatch]:
    """Yield the mini-batches of ``rewrites`` in their order, run up to the lowest trained block."""
    forced = settings.objective == "target"
    for start in range(0, len(rewrites), settings.batch):
        batch = rewrites[start : start + settings.batch]
        rows = [
            (encode(tokenizer, made.prompt)[0], target_ids(tokenizer, made.prompt, made.target) + settings.ending)
            for made in batch
        ]
        yield FtBatch(
            names=tuple(made.id for made in batch),
            rows=training_rows(modules, rows, settings.layers[0], forced=forced, whole=settings.whole),
        )


def _zero(modules: ModuleMap, layer: Layer) -> ProjectionUpdate:
    def zeros(like: Tensor) -> Tensor:
        return torch.zeros(like.shape, dtype=modules.dtype, device=like.device, requires_grad=True)

    bias = getattr(layer.projection, "bias", None)
    return ProjectionUpdate(layer=layer, weight=zeros(layer.matrix), bias=None if bias is None else zeros(bias))


@uninterruptible_context
def _attached(updates: Sequence[ProjectionUpdate]) -> Iterator[None]:
    """Make the projections return W x + D x while the block runs."""
    with Hooks() as hooks:
        for update in updates:

            def hook(
                _module: nn.Module, args: tuple[Any, ...], output: Tensor, update: ProjectionUpdate = update
            ) -> Tensor:
                return (output + update.added(args[0])).to(output.dtype)

            hooks.add(update.layer.projection, hook)
        yield
