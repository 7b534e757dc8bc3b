"""Editor ``wise``: side memories in one FFN matrix, and a router between them and the model (WISE, Wang et al. 2024).

Most published models have the margins 5, 20 and 10. They bound norms of outputs, so they belong to the scale of the
hidden states of a model. For a model without published values they follow from this scale: ``derive``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl, option
from ke_weights import MapRange, Published, derived, not_negative, positive, resolve_hyperparameters

CITE = (
    "Wang, Li, Zhang, Xu, Yao, Jiang, Xie, Huang, Chen: WISE: Rethinking the Knowledge Memory for Lifelong Model "
    "Editing of Large Language Models. NeurIPS 2024, https://arxiv.org/abs/2405.14768"
)


def _fraction(default: float, text: str) -> Any:
    check: Any = validators.and_(validators.gt(0), validators.le(1))
    return option(text, default, check)


def _count(default: int, text: str) -> Any:
    return option(text, default, validators.ge(1))


@frozen(kw_only=True)
class WiseConfig:
    """Hyperparameters. None means: the published value for this model, else derived from the model."""

    module: str | None = derived(
        "linear map whose copy is the side memory, as PART:LAYER, such as down:27; the parts are gate and up (into the "
        "MLP) and down (out of it)"
    )
    steps: int | None = derived("maximum number of SGD steps per edit", positive)
    lr: float | None = derived("learning rate of SGD", positive)
    alpha: float | None = derived("maximum routing score of an unrelated text in training", not_negative)
    beta: float | None = derived("minimum routing score of an edit in training", not_negative)
    gamma: float | None = derived("minimum difference of the two scores in training", not_negative)
    margin_weight: float | None = derived("weight of the three margin terms in the loss", not_negative)
    act_ratio: float | None = derived("threshold of the router, relative to the smallest score of an edit", positive)
    score: Literal["output", "activation"] | None = derived(
        "what the routing score compares: output = the outputs of the matrices (equation 4 of the paper); activation = "
        "these after the model's activation function (released code)"
    )
    mask_ratio: float = _fraction(0.2, "fraction of the entries that a shard changes")
    clamp: float = option("maximum change of an entry of the matrix", 1.0, validators.gt(0))
    weight_decay: float = option("weight decay of SGD", 1e-5, validators.ge(0))
    variant: Literal["retrieve", "merge"] = option(
        "retrieve = several side memories, chosen by the router; merge = all shards in one", "retrieve"
    )
    save_freq: int = _count(500, "edits in a shard; each shard has its own mask")
    merge_freq: int = _count(1000, "edits after which the shards are merged, a multiple of save_freq")
    density: float = _fraction(0.53, "fraction of the entries of each shard that TIES merging keeps")
    contexts: int = option(
        "sampled left contexts of a request in training, half of 5 tokens and half of 10: 0, 10 or 20",
        10,
        validators.in_((0, 10, 20)),
    )
    corpus: str = option(
        "text from which the unrelated texts are sampled: wordnet (in the package), a text file, or a "
        "dataset on the Hub (OWNER/NAME:CONFIGURATION)",
        "wordnet",
        file=True,
        words=("wordnet",),
    )
    profile: Literal["default", "paper"] = option(
        "default = corrected; paper = as released: decay, routing, score and bias (README)", "default"
    )


def _published(source: str, module: str, *, also: str = "", **values: float) -> Published:
    usual = {"steps": 70, "lr": 1.0, "alpha": 5.0, "beta": 20.0, "gamma": 10.0, "margin_weight": 1.0, "act_ratio": 0.88}
    return Published(f"{source} by EasyEdit", {"module": module} | usual | values | {"score": "activation"}, also)


PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gptj", 28, 4096, 16384): _published("GPT-J", "down:21", alpha=15.0, beta=40.0, gamma=20.0),
    ("gpt2", 48, 1600, 6400): _published("GPT-2 XL", "up:8", steps=40, act_ratio=0.8),
    ("llama", 32, 4096, 11008): _published("LLaMA-2-7B", "down:27"),
    ("mistral", 32, 4096, 14336): _published("Mistral-7B", "down:27"),
    ("llama", 28, 3072, 8192): _published("LLaMA-3.2-3B", "down:27"),
    ("llama", 32, 4096, 14336): _published(
        "LLaMA-3-8B", "down:29", steps=30, lr=0.9, alpha=2.0, act_ratio=0.5,
        also="for LLaMA-3.1-8B: alpha 5, beta 10, act_ratio 0.88",
    ),
    ("qwen2", 28, 3584, 18944): _published("Qwen2.5-7B", "down:23"),
    ("qwen3_5_text", 32, 4096, 12288): _published("Qwen3.5-9B", "down:23"),
}  # fmt: skip
"""The configurations of EasyEdit, whose values belong to the score of its code."""

DEPTH = 0.84
"""Published matrices of LLaMA-2, Mistral and Qwen2.5 are at this fraction of the depth."""


def derive(config: WiseConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return the matrix, the margins and the learning rate, with the reasons for their values."""
    shape = facts.shape
    published = PUBLISHED.get(shape.key)
    layer = min(round(DEPTH * shape.blocks), shape.blocks - 1)
    where = Setting(f"down:{layer}", f"{DEPTH:.0%} of {shape.blocks} blocks, as published for LLaMA-2")
    module = resolve_hyperparameters(config, published, {"module": where})
    usual = {
        "steps": Setting(70, "published for most models"),
        "lr": Setting(1.0, "published for most models"),
        "act_ratio": Setting(0.88, "published for most models"),
        "score": Setting("output", "equation 4 of the paper"),
    }
    if config.profile == "paper" and config.score is None:
        usual["score"] = Setting("activation", "released code")
    margins = _scaled(config, facts, module["module"].value) if published is None else _margins(published)
    return module | resolve_hyperparameters(config, published, margins | usual)


MARGINS = ("alpha", "beta", "gamma", "margin_weight")


def _margins(published: Published) -> dict[str, Setting]:
    return {name: Setting(published.values[name], published.reason) for name in MARGINS}


BETA, ALPHA, GAMMA = 0.15, 1 / 4, 1 / 2
"""Beta relative to the norm of the hidden state, measured on SmolLM2-135M (README); alpha and gamma relative to beta,
as published for most models."""
PUBLISHED_BETA = 20.0


def _scaled(config: WiseConfig, facts: ModelFacts, module: str) -> dict[str, Setting]:
    """Return margins for the scale of the hidden states, and their weight."""
    layer = min(MapRange.of(module).last, facts.shape.blocks - 1)  # a missing layer is refused later
    size = facts.scale(layer)
    beta = BETA * size * facts.shape.hidden**0.5
    weight = float(f"{PUBLISHED_BETA / (config.beta or beta):.2g}")
    why = f"the norm of the hidden state at layer {layer}, whose root mean square is {size}"
    return {
        "alpha": Setting(float(f"{ALPHA * beta:.2g}"), f"{ALPHA * BETA:.1%} of {why}"),
        "beta": Setting(float(f"{beta:.2g}"), f"{BETA:.0%} of {why}"),
        "gamma": Setting(float(f"{GAMMA * beta:.2g}"), f"{GAMMA * BETA:.1%} of {why}"),
        "margin_weight": Setting(weight, f"{PUBLISHED_BETA:.0f} / beta: margin terms as large as in published models"),
    }


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``wise``."""
    return [
        EditorSpec(
            name="wise",
            summary="lifelong edits in copies of one FFN matrix, which a router uses for edited facts only",
            config=WiseConfig,
            build="ke_plugin_wise.editor:Wise",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            adaptor=True,
            edited_form="cloze",
            load=lambda editor, session, path: editor.load(session, path),
        )
    ]
