"""Hyperparameters for the model at hand, each with the reason for its value.

An option that is left alone (None) takes the value published for a model of this shape, and where there is no
publication one that follows from the shape. Shapes are told by the numbers of the architecture, never by a name or
a path (pitfall X4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import field, frozen, validators

from ke_core.plugin import BadConfig, ModelFacts, Setting, Settings, Shape, Trace
from ke_weights.published import PUBLISHED_MULTI_LAYER, PUBLISHED_SINGLE_LAYER, Key, Published

STEPS_ACROSS = 5  # steps in which Adam can cross a typical state
SHALLOW = 16  # blocks; below, a window of five would be most of the model
positive = validators.optional(validators.gt(0))
not_negative = validators.optional(validators.ge(0))


def derived(text: str, check: Any = None) -> Any:
    """A config field that, left alone, is set for the model at hand."""
    return field(default=None, validator=check or [], metadata={"help": text, "derived": True})


def resolve_hyperparameters(config: object, published: Published | None, otherwise: Settings) -> dict[str, Setting]:
    """What the user gave, else what was published, else the derived value; in the order of ``otherwise``."""
    found: dict[str, Setting] = {}
    for name, setting in otherwise.items():
        given = getattr(config, name)
        if given is not None and given != "trace":
            found[name] = Setting(given, "given")
        elif published is not None and name in published.values and given is None:
            found[name] = Setting(published.values[name], published.reason)
        else:
            found[name] = setting
    return found


def as_details(settings: Settings) -> dict[str, Any]:
    """JSON values, for the record of an edit: each hyperparameter, and the reasons."""
    values = {name: list(s.value) if isinstance(s.value, tuple) else s.value for name, s in settings.items()}
    return values | {"reasons": {name: setting.reason for name, setting in settings.items()}}


def template_length() -> Any:
    """The config field of methods that sample five left contexts of one length, as MEMIT does."""
    return field(
        default=10, validator=validators.gt(0), metadata={"help": "tokens of each of the five sampled left contexts"}
    )


@frozen(kw_only=True)
class TargetConfig:
    """The options of every method that optimizes a target for each edit and weighs its update by second moments."""

    steps: int | None = derived("evaluations of the loss at most, one more than updates of the target", positive)
    lr: float | None = derived("learning rate of the target", positive)
    weight_decay: float | None = derived("weight of |delta| / |h|^2 in the loss of the target", not_negative)
    clamp: float | None = derived("largest |delta| / |h|", positive)
    kl: float = field(
        default=0.0625,
        validator=validators.ge(0),
        metadata={"help": "weight of KL(now || before) at the subject in the loss of the target"},
    )
    stop_loss: float = field(
        default=0.05, validator=validators.ge(0), metadata={"help": "an edit's loss below which its target is done"}
    )
    corpus: str = field(
        default="wordnet",
        metadata={
            "help": "text of the second moments: wordnet (in the package), a text file (one document a line), or a "
            "dataset of the hub (OWNER/NAME:CONFIGURATION)",
            "file": True,
            "words": ("wordnet",),
        },
    )
    tokens: int = field(
        default=100_000, validator=validators.gt(0), metadata={"help": "tokens of the corpus that are used"}
    )
    document_length: int = field(
        default=1024, validator=validators.gt(0), metadata={"help": "longest document of the corpus, in tokens"}
    )
    templates: tuple[str, ...] | None = field(
        default=None, metadata={"help": "left contexts in place of sampled ones, each ending in {}"}
    )


@frozen(kw_only=True)
class MultiLayerConfig(TargetConfig):
    """Of a method that spreads the update over a window of layers."""

    layers: tuple[int, ...] | Literal["trace"] | None = derived(
        "layers whose MLP weights are edited, ascending, or trace (what ke trace suggests); the target is of the last"
    )
    template_length: int = template_length()


@frozen(kw_only=True)
class SingleLayerConfig(TargetConfig):
    """Options of a method that edits one layer."""

    layer: int | Literal["trace"] | None = derived(
        "the layer whose MLP weight is edited, or trace (what ke trace suggests)"
    )


@frozen(kw_only=True)
class RankOneConfig(SingleLayerConfig):
    """Options of ROME and its successors."""

    mom2_adjustment: bool = field(
        default=True,
        metadata={"help": "key direction C^-1 k, as the authors have it; false: k itself, as EasyEdit has it"},
    )


# --- values that follow from a shape ---------------------------------------------------------------------------


def multi_layer_settings(config: MultiLayerConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Layers and target of a method that spreads its update. Raises BadConfig for a trace that was never made."""
    shape = facts.shape
    window = _window(shape.blocks)
    if config.layers == "trace":
        layers = _traced(facts, lambda trace: trace.layers)
    else:
        reason = f"{len(window)} layers ending at 27 % of {shape.blocks} blocks, where published windows end"
        layers = Setting(window, reason)
    clamp = 4.0 if shape.rms_norm else 0.75
    published = PUBLISHED_MULTI_LAYER.get(shape.key)
    found = resolve_hyperparameters(config, published, {"layers": layers} | _target(shape, clamp))
    if published is None and config.lr is None:
        found["lr"] = _rate(facts, found["layers"].value[-1], found["lr"])
    return found


def single_layer_settings(
    config: SingleLayerConfig,
    facts: ModelFacts,
    *,
    table: Mapping[Key, Published] = PUBLISHED_SINGLE_LAYER,
    clamp: float = 4.0,
) -> dict[str, Setting]:
    """Layer and target of a method that edits one layer: ``table``'s, or derived with that ``clamp``.

    Raises BadConfig for a trace that was never made.
    """
    shape = facts.shape
    share = 0.17 if shape.rms_norm else 0.35
    if config.layer == "trace":
        layer = _traced(facts, lambda trace: trace.layer)
    else:
        reason = f"{share:.0%} of {shape.blocks} blocks, where published layers lie ({shape.norm})"
        layer = Setting(min(max(round(share * shape.blocks), 1), max(shape.blocks - 2, 0)), reason)
    published = table.get(shape.key)
    found = resolve_hyperparameters(config, published, {"layer": layer} | _target(shape, clamp))
    if published is None and config.lr is None:
        found["lr"] = _rate(facts, found["layer"].value, found["lr"])
    return found


def _target(shape: Shape, clamp: float) -> dict[str, Setting]:
    return {
        "steps": Setting(25, "published for most models"),
        "lr": Setting(0.5, "published for most models"),
        "weight_decay": Setting(1e-3 if shape.rms_norm else 0.5, shape.norm),
        "clamp": Setting(clamp, shape.norm),
    }


def _rate(facts: ModelFacts, layer: int, usual: Setting) -> Setting:
    """A learning rate that fits the scale of the states.

    Adam moves every element of the target by about lr a step, whatever the model's scale. Where states are large
    (SmolLM2-135M: 5.3 an element at layer 8) the published 0.5 is too short a step, and some targets never arrive in
    25 of them: there a fifth of an element's root mean square is taken.
    """
    if not 0 <= layer < facts.shape.blocks:
        return usual  # a layer that does not exist is refused where the model is opened
    size = facts.scale(layer)
    if size / STEPS_ACROSS <= usual.value:
        return usual
    reason = f"a fifth of the root mean square of a state's element at layer {layer}, {size}"
    return Setting(size / STEPS_ACROSS, reason)


def _traced(facts: ModelFacts, pick: Callable[[Trace], Any]) -> Setting:
    trace = facts.trace()
    if trace is None:
        raise BadConfig(
            "no causal trace of this model is known", hint="make one with 'ke trace --model M --facts FILE'"
        )
    return Setting(pick(trace), f"causal tracing: {trace.rule}" if trace.traced else trace.rule)


def _window(blocks: int) -> tuple[int, ...]:
    """Layers to edit: five (a sixth of a shallow model) that end at 27 % of the depth, not the first nor the last."""
    count = 5 if blocks >= SHALLOW else max(2, round(blocks / 6))
    top = min(max(round(0.27 * blocks), count), max(blocks - 2, 0))
    return tuple(range(max(top - count + 1, 0), top + 1))
