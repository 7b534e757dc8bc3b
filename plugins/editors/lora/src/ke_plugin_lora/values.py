"""Options of adapters, and the values that depend on the model: published or derived.

The published settings were chosen for models of 1 to 8 billion parameters: a rate of 0.005, an update scaled by alpha /
r = 4, a fixed number of epochs. They ruin a small model (perplexity 1e15 on SmolLM2-135M), so ``profile=default`` uses
them only for the models that they were published for. Other models get derived values, with early stopping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from attrs import frozen, validators

from ke_core.plugin import ModelFacts, Setting, Shape, option
from ke_weights import Published, derived, edited_layers, positive, resolve_hyperparameters


@frozen(kw_only=True)
class AdapterConfig:
    """Options of ``lora`` and ``qlora``. None means: the published value for this model, else derived."""

    profile: Literal["default", "paper"] = option(
        "default = published values for a model that has them, else derived ones that leave a small model "
        "usable; paper = published settings for every model",
        "default",
    )
    targets: tuple[str, ...] | None = derived("names of the linear layers that get an adapter, e.g. q_proj,v_proj")
    layers: tuple[int, ...] | None = derived("blocks that get an adapter; published: all of them")
    epochs: int | None = derived("maximum number of epochs", positive)
    rank: int | None = derived("r, the rank of an adapter's B A; published: 8", positive)
    alpha: float | None = derived("B A is scaled by alpha / r; published: 32", positive)
    dropout: float | None = derived(
        "dropout probability of the adapter's inputs in training; published: 0.1",
        validators.optional([validators.ge(0), validators.lt(1)]),
    )
    lr: float | None = derived("learning rate of Adam; published: 0.005", positive)
    stop_loss: float | None = derived(
        "skip a batch whose mean loss is below this value, and stop when the mean loss of all edits is; published: 0, "
        "which never stops",
        validators.optional(validators.ge(0)),
    )
    batch: int = option("edits per optimizer step", 1, validators.gt(0))


@frozen(kw_only=True)
class LoraConfig(AdapterConfig):
    """Options of ``lora``."""


@frozen(kw_only=True)
class LoraSettings:
    """The resolved hyperparameters of an adapter and its training."""

    epochs: int
    rank: int
    alpha: float
    dropout: float
    lr: float
    stop_loss: float
    batch: int

    @classmethod
    def of(cls, values: Mapping[str, Setting], batch: int) -> Self:
        """Create it from resolved settings."""
        names = ("epochs", "rank", "alpha", "dropout", "lr", "stop_loss")
        return cls(**{name: values[name].value for name in names}, batch=batch)


QV = ("q_proj", "v_proj")
EASYEDIT: Mapping[str, Any] = {
    "layers": (), "rank": 8, "alpha": 32.0, "dropout": 0.1, "lr": 5e-3, "stop_loss": 0.0
}  # fmt: skip
"""Settings that EasyEdit publishes for every model. No layers: all blocks."""


def _easyedit(model: str, targets: tuple[str, ...], epochs: int, also: str = "") -> Published:
    return Published(f"{model} by EasyEdit", {**EASYEDIT, "targets": targets, "epochs": epochs}, also)


PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): _easyedit("GPT-2 XL", ("c_attn",), 30),
    ("gptj", 28, 4096, 16384): _easyedit("GPT-J", ("fc_in", "fc_out"), 50),
    ("llama", 32, 4096, 11008): _easyedit("LLaMA-2-7B", QV, 70),
    ("llama", 32, 4096, 14336): _easyedit("LLaMA-3-8B", QV, 70, "50 epochs for LLaMA-3.1-8B"),
    ("llama", 28, 3072, 8192): _easyedit("LLaMA-3.2-3B", QV, 70),
    ("llama", 16, 2048, 8192): _easyedit("LLaMA-3.2-1B", QV, 70),
    ("qwen2", 28, 3584, 18944): _easyedit("Qwen2.5-7B", QV, 60),
}


def settings(config: AdapterConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return every hyperparameter that depends on the model, with its reason.

    No targets: the MLP output projection of every block. No layers: every block.
    """
    otherwise = _paper(facts.shape) if config.profile == "paper" else _derived(config, facts.shape)
    return resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), otherwise)


def _paper(shape: Shape) -> dict[str, Setting]:
    """Return the published settings for a model without published values of its own."""
    epochs = (60, "Qwen2.5-7B") if shape.rms_norm else (50, "GPT-J")
    every = {name: Setting(value, "published for every model") for name, value in EASYEDIT.items()}
    return {
        "targets": _targets(shape.family),
        "epochs": Setting(epochs[0], f"published for {epochs[1]}, which has the same type of norm"),
        **every,
    }


def _derived(config: AdapterConfig, shape: Shape) -> dict[str, Setting]:
    """Return settings that leave a small model usable. The README has the measurements behind them."""
    rank = EASYEDIT["rank"] if config.rank is None else config.rank
    return {
        "targets": Setting((), "the MLP output projection, which stores facts and which locate-and-edit methods edit"),
        "layers": edited_layers(shape),
        "epochs": Setting(60, "published for Qwen2.5-7B; early stopping needs about 11"),
        "rank": Setting(rank, "published for every model"),
        "alpha": Setting(
            float(rank), "r, so B A is not scaled: the published alpha / r of 4 is a four times higher rate"
        ),
        "dropout": Setting(0.0, "early stopping needs the loss without noise"),
        "lr": Setting(3e-3, "measured on SmolLM2-135M: an edit needs about 11 epochs"),
        "stop_loss": Setting(0.1, "a probability of 90% for each token of the new object: later epochs only do damage"),
    }


def _targets(family: str) -> Setting:
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN  # noqa: PLC0415  slow import

    names = KNOWN.get(family)
    if names is None or isinstance(names, str):
        return Setting((), f"the MLP output projection of every block: peft has no targets for {family}")
    return Setting(tuple(names), f"peft's targets for {family}")
