"""Editor ``ultraedit``: lifelong editing from normalized inputs and gradients (UltraEdit, Gu et al. 2025).

Every published model has the step size 1e-6, and is one with billions of parameters. On SmolLM2-135M, whose hidden
states are much larger, this value changes no answer. So for a model without published values, eta follows from the
size of its hidden states: ``derive``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl, option
from ke_weights import MapRange, Published, derived, positive, resolve_hyperparameters

CITE = (
    "Gu, Huang, Gu, Zhang: UltraEdit: Training-, Subject-, and Memory-Free Lifelong Editing in Language Models. 2025, "
    "https://arxiv.org/abs/2505.14679"
)


@frozen(kw_only=True)
class UltraEditConfig:
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    modules: tuple[str, ...] | None = derived(
        "linear maps of the MLPs to change, each as PART:LAYER or PART:FIRST-LAST, such as gate:11-15,up:18-24; the "
        "parts are gate and up (into the MLP) and down (out of it)"
    )
    eta: float | None = derived("step size: the output for an answer token changes by eta |h|^2 g", positive)
    batch: int = option("edits per forward and backward pass, as published", 10, validators.gt(0))
    profile: Literal["default", "paper"] = option(
        "running variance: default = exact; paper = as released; the standard deviation is 10 to 14% too large",
        "default",
    )


def _published(source: str, *modules: str) -> Published:
    return Published(source, {"modules": modules, "eta": 1e-6})


PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("llama", 32, 4096, 14336): _published("LLaMA-3-8B by UltraEdit's authors", "gate:11-15", "up:18-24"),
    ("qwen2", 28, 3584, 18944): _published("Qwen2.5-7B by UltraEdit's authors", "gate:18-26", "up:18-26"),
    ("mistral", 32, 4096, 14336): _published("Mistral-7B by UltraEdit's authors", "down:29-30"),
    ("gptj", 28, 4096, 16384): _published("GPT-J by UltraEdit's authors", "down:18-26"),
    ("phi3", 40, 5120, 17920): _published("phi-4 by UltraEdit's authors", "down:30-38"),
    ("gemma3_text", 62, 5376, 21504): _published("Gemma-3-27B by UltraEdit's authors", "gate:52-60", "up:52-60"),
}
"""The published configurations; LLaMA-3-8B, Qwen2.5-7B and GPT-J have others for FEVER or WikiBigEdit."""


FRACTION = 0.004
"""Change of an output relative to the hidden state: measured on SmolLM2-135M (README)."""
PUBLISHED_ETA = 1e-6


def derive(config: UltraEditConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return the linear maps and eta, with the reason for their values."""
    shape = facts.shape
    first, last = round(0.64 * shape.blocks), min(round(0.93 * shape.blocks), shape.blocks - 1)
    reason = f"64 to 93% of {shape.blocks} blocks, as published for Qwen2.5 and GPT-J"
    modules = resolve_hyperparameters(
        config, PUBLISHED.get(shape.key), {"modules": Setting((f"up:{first}-{last}",), reason)}
    )
    eta = {"eta": Setting(PUBLISHED_ETA, "published for every model")}
    if config.eta is None and shape.key not in PUBLISHED:
        eta = {"eta": _derived_eta(facts, modules["modules"].value)}
    return modules | resolve_hyperparameters(config, PUBLISHED.get(shape.key), eta)


def _derived_eta(facts: ModelFacts, modules: tuple[str, ...]) -> Setting:
    """Return the eta whose changes of outputs are a fraction of the hidden state at the last layer.

    |h^|^2 is about the number of inputs of the linear map, and an element of g^ is about 1.
    """
    entries = [MapRange.of(text) for text in modules]
    layer = max(entry.last for entry in entries)
    if layer >= facts.shape.blocks:
        return Setting(PUBLISHED_ETA, "published for every model")  # the layer is refused when the model is opened
    inputs = facts.shape.inner if all(entry.part == "down" for entry in entries) else facts.shape.hidden
    size = facts.scale(layer)
    reason = f"{FRACTION:.1%} of the root mean square of the hidden state at layer {layer}, {size}, per input"
    return Setting(float(f"{FRACTION * size / inputs:.2g}"), reason)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``ultraedit``."""
    return [
        EditorSpec(
            name="ultraedit",
            summary="lifelong edits in closed form from normalized gradients, without training or a subject",
            config=UltraEditConfig,
            build="ke_plugin_ultraedit.editor:UltraEdit",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            load=lambda editor, session, path: editor.load(session, path),
        )
    ]
