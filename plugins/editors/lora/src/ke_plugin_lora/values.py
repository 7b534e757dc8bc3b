"""Options of adapters, and the values that depend on the model: published or derived."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen, validators

from ke_core.plugin import ModelFacts, Setting
from ke_weights import Published, derived, positive, resolve_hyperparameters


@frozen(kw_only=True)
class AdapterConfig:
    """Options of ``lora`` and ``qlora``. None means: the published value for this model, else derived."""

    targets: tuple[str, ...] | None = derived("names of the linear layers that get an adapter, e.g. q_proj,v_proj")
    steps: int | None = derived("passes over the edits", positive)
    rank: int = field(default=8, validator=validators.gt(0), metadata={"help": "r, the rank of an adapter's B A"})
    alpha: float = field(default=32.0, validator=validators.gt(0), metadata={"help": "B A is scaled by alpha / r"})
    dropout: float = field(
        default=0.1,
        validator=[validators.ge(0), validators.lt(1)],
        metadata={"help": "dropout probability of the adapter's inputs in training"},
    )
    lr: float = field(default=5e-3, validator=validators.gt(0), metadata={"help": "learning rate of Adam"})
    batch: int = field(default=1, validator=validators.gt(0), metadata={"help": "edits per optimizer step"})


@frozen(kw_only=True)
class LoraConfig(AdapterConfig):
    """Options of ``lora``."""


QV = ("q_proj", "v_proj")
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by EasyEdit", {"targets": ("c_attn",), "steps": 30}),
    ("gptj", 28, 4096, 16384): Published("GPT-J by EasyEdit", {"targets": ("fc_in", "fc_out"), "steps": 50}),
    ("llama", 32, 4096, 11008): Published("LLaMA-2-7B by EasyEdit", {"targets": QV, "steps": 70}),
    ("llama", 32, 4096, 14336): Published(
        "LLaMA-3-8B by EasyEdit", {"targets": QV, "steps": 70}, "50 passes for LLaMA-3.1-8B"
    ),
    ("llama", 28, 3072, 8192): Published("LLaMA-3.2-3B by EasyEdit", {"targets": QV, "steps": 70}),
    ("llama", 16, 2048, 8192): Published("LLaMA-3.2-1B by EasyEdit", {"targets": QV, "steps": 70}),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", {"targets": QV, "steps": 60}),
}


def settings(config: AdapterConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return targets and passes with their reasons. No targets: the MLP output projection of every block."""
    steps = (60, "Qwen2.5-7B") if facts.shape.rms_norm else (50, "GPT-J")
    otherwise = {
        "targets": _targets(facts.shape.family),
        "steps": Setting(steps[0], f"published for {steps[1]}, which has the same type of norm"),
    }
    return resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), otherwise)


def _targets(family: str) -> Setting:
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN  # noqa: PLC0415  slow import

    names = KNOWN.get(family)
    if names is None or isinstance(names, str):
        return Setting((), f"the MLP output projection of every block: peft has no targets for {family}")
    return Setting(tuple(names), f"peft's targets for {family}")
