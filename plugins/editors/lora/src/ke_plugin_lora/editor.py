"""LoRA as an editor: train an adapter, take it out, add its B A to the weights while the context is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session, Setting
from ke_plugin_lora.adapter import Adapter, attached, held_as, named
from ke_plugin_lora.training import Example, measured, objects, seeded, train
from ke_plugin_lora.values import AdapterConfig, LoraConfig, settings
from ke_weights import as_details
from ke_weights.plugin import NOT_QUANTIZED, OpenModel, Patch, find_parts, model_facts, unsupported_edits


class Lora:
    """Trains one adapter on a batch of edits and merges it."""

    def __init__(self, config: LoraConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze or a new object, too long, or contradicting an earlier one.

        Raises a KEError for a model that cannot be edited with these options.
        """
        must_be_whole(session.model.module)
        if not edits:
            place(session, self.config)
        return unsupported_edits(edits, session.model.tokenizer, session.model.context)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` together. Raises UnsupportedEdit, BadConfig, and EditFailed where the numbers go wrong."""
        must_be_whole(session.model.module)
        examples = objects(session.model, edits)
        if not examples:
            yield PassthroughModel(session)
            return
        with session.model.patch() as weights:
            yield PassthroughModel(session, self._write(session, examples, weights))

    def _write(self, session: Session[OpenModel], examples: Sequence[Example], weights: Patch) -> dict[str, Any]:
        """Train an adapter and add it to the weights; what is to be recorded of it."""
        with trained(session, examples, self.config) as (adapter, details):
            deltas = adapter.deltas()
        for name, delta in deltas.items():
            weights.add(name, delta)
        return details | {"relative_update_norms": {name: weights.relative_norm(name) for name in deltas}}


@contextmanager
def trained(
    session: Session[OpenModel], examples: Sequence[Example], config: AdapterConfig
) -> Iterator[tuple[Adapter, dict[str, Any]]]:
    """A trained adapter that acts while the block runs, and what is to be recorded of it."""
    model = session.model
    values, targets = place(session, config)
    before = measured(model.module, examples, model.device)
    with ExitStack() as stack:
        with seeded(model.device, session.seed):
            adapter = stack.enter_context(attached(model.module, targets, config))
            train(
                model.module, adapter, examples, config,
                steps=values["steps"].value, device=model.device, seed=session.seed, progress=session.progress,
            )  # fmt: skip
        after = measured(model.module, examples, model.device)
        yield adapter, _details(config, values, adapter, before, after)


def place(session: Session[OpenModel], config: AdapterConfig) -> tuple[Mapping[str, Setting], tuple[str, ...]]:
    """The hyperparameters, and where adapters go. Raises BadConfig where no map has such a name."""
    parts = find_parts(session.model.module)
    values = settings(config, model_facts(session, parts))
    targets = values["targets"].value or tuple(layer.projection_name for layer in parts.layers)
    named(session.model.module, targets)
    return values, targets


def must_be_whole(module: nn.Module) -> None:
    """Raise BadConfig for a quantized model: B A cannot be added to codes."""
    held = held_as(module)
    if held:
        raise BadConfig(
            f"lora adds its update to the weights, and these are quantized ({held})",
            hint="choose --editor qlora, or load the model with --dtype float32" if held == "nf4" else NOT_QUANTIZED,
        )


def _details(
    config: AdapterConfig,
    values: Mapping[str, Setting],
    adapter: Adapter,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> dict[str, Any]:
    given = {"rank": config.rank, "alpha": config.alpha, "dropout": config.dropout, "lr": config.lr}
    return {
        "hyperparameters": given | {"batch": config.batch} | as_details(values),
        "adapters": list(adapter.layers),
        "update_norms": adapter.norms(),
        "edits": {name: {"loss_before": before[name], "loss_after": after[name]} for name in before},
    }
