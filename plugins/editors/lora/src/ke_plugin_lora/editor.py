"""LoRA as an editor: train an adapter, remove it, and add its B A to the weights while the edit is active."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session, Setting
from ke_plugin_lora.adapter import Adapter, attach_adapter, quantization, target_layers
from ke_plugin_lora.training import Example, example_losses, seed_generators, target_examples, train
from ke_plugin_lora.values import AdapterConfig, LoraConfig, LoraSettings, settings
from ke_weights import as_details
from ke_weights.plugin import NOT_QUANTIZED, OpenModel, Patch, derived_seed, find_parts, model_facts, unsupported_edits


class Lora:
    """Editor that trains one adapter on a batch of edits and merges it."""

    def __init__(self, config: LoraConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a cloze or a new object, too long, or contradicting an earlier one.

        Raises a KEError for a model that cannot be edited with these options.
        """
        refuse_quantized(session.model.module)
        if not edits:
            resolve_settings(session, self.config)
        return unsupported_edits(edits, session.model.tokenizer, session.model.context)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together. Raises UnsupportedEdit, BadConfig, and EditFailed if a loss is not finite."""
        refuse_quantized(session.model.module)
        examples = target_examples(session.model, edits)
        if not examples:
            yield PassthroughModel(session)
            return
        with session.model.patch() as weights:
            yield PassthroughModel(session, self._write(session, examples, weights))

    def _write(self, session: Session[OpenModel], examples: Sequence[Example], weights: Patch) -> dict[str, Any]:
        """Train an adapter and add it to the weights. Return the details for the record."""
        with trained_adapter(session, examples, self.config) as (adapter, details):
            deltas = adapter.deltas()
        for name, delta in deltas.items():
            weights.add(name, delta)
        record_losses(details, session.model, examples)  # of the rounded weights
        return details | {"relative_update_norms": {name: weights.relative_norm(name) for name in deltas}}


@contextmanager
def trained_adapter(
    session: Session[OpenModel], examples: Sequence[Example], config: AdapterConfig
) -> Iterator[tuple[Adapter, dict[str, Any]]]:
    """Train an adapter that is active while the block runs.

    Yield it with the details for the record, to which ``record_losses`` adds the losses after the edit.
    """
    model = session.model
    values, targets = resolve_settings(session, config)
    recipe = LoraSettings.of(values, config.batch)
    before = example_losses(model.module, examples, model.device)
    with ExitStack() as stack:
        # Of the run and its edits, so that the adapters of a sequence do not all start in the same directions
        seed = derived_seed(seed=session.seed, edits=[one.edit for one in examples])
        with seed_generators(model.device, seed):
            adapter = stack.enter_context(attach_adapter(model.module, targets, recipe))
            epochs = train(
                model.module, adapter, examples, recipe,
                device=model.device, seed=seed, progress=session.progress,
            )  # fmt: skip
        yield adapter, _details(config, values, epochs, adapter, before)


def record_losses(details: dict[str, Any], model: OpenModel, examples: Sequence[Example]) -> None:
    """Add the loss of each edit on ``model`` as it is now to ``details``."""
    for name, loss in example_losses(model.module, examples, model.device).items():
        details["edits"][name]["loss_after"] = loss


def resolve_settings(
    session: Session[OpenModel], config: AdapterConfig
) -> tuple[Mapping[str, Setting], tuple[str, ...]]:
    """Return the hyperparameters and the paths of the targets. Raises BadConfig for unknown targets or blocks."""
    parts = find_parts(session.model.module)
    values = settings(config, model_facts(session, parts))
    # inside another adapter of peft, the module map names the layer that the adapter wraps
    targets = values["targets"].value or tuple(
        layer.projection_name.removesuffix(".base_layer") for layer in parts.layers
    )
    found = tuple(target_layers(session.model.module, targets))
    blocks = values["layers"].value
    if blocks:
        parts.check_layers(blocks)
        inside = tuple(f"{parts.layers[at].name}." for at in blocks)
        found = tuple(path for path in found if path.startswith(inside))
        if not found:
            raise BadConfig(
                f"targets: {', '.join(targets)} is in none of the layers {', '.join(map(str, blocks))}",
                hint="choose other targets or layers",
            )
    refuse_shared(session.model.module, found)
    return values, found


def refuse_shared(module: nn.Module, targets: Sequence[str]) -> None:
    """Raise BadConfig for a target whose weight another module uses too: B A would change that module untrained."""
    users = Counter(id(parameter) for _name, parameter in module.named_parameters(remove_duplicate=False))
    for path in targets:
        if users[id(module.get_submodule(path).weight)] > 1:
            raise BadConfig(f"targets: {path} shares its weight with another module", hint="choose other targets")


def refuse_quantized(module: nn.Module) -> None:
    """Raise BadConfig for a quantized model: B A cannot be added to codes."""
    held = quantization(module)
    if held:
        raise BadConfig(
            f"lora cannot add its update to quantized weights ({held})",
            hint="use --editor qlora, or load the model with --dtype float32" if held == "nf4" else NOT_QUANTIZED,
        )


def _details(
    config: AdapterConfig, values: Mapping[str, Setting], epochs: int, adapter: Adapter, before: Mapping[str, float]
) -> dict[str, Any]:
    return {
        "hyperparameters": {"profile": config.profile, "batch": config.batch} | as_details(values),
        "epochs": epochs,
        "adapters": list(adapter.layers),
        "update_norms": adapter.norms(),
        "edits": {name: {"loss_before": loss} for name, loss in before.items()},
    }
