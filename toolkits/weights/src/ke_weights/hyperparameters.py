"""Hyperparameters for a model, each with the reason for its value.

An unset option (None) has the value published for a model of this shape, else a value derived from the shape. Shapes
are identified by the architecture's dimensions, never by a name or a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from attrs import field, frozen, validators

from ke_core.plugin import BadConfig, ModelFacts, Setting, Settings, Shape, Trace, option
from ke_weights.published import PUBLISHED_MULTI_LAYER, PUBLISHED_SINGLE_LAYER, Key, Published

STEPS_ACROSS = 5  # Adam steps to change a hidden state completely
SHALLOW = 16  # blocks; in a shallower model, five layers would be most of it
positive = validators.optional(validators.gt(0))
not_negative = validators.optional(validators.ge(0))


def derived(text: str, check: Any = None) -> Any:
    """Return a config field whose default depends on the model."""
    return field(default=None, validator=check or [], metadata={"help": text, "derived": True})


def resolve_hyperparameters(config: object, published: Published | None, otherwise: Settings) -> dict[str, Setting]:
    """Return the user's value, else the published, else the derived one, in the order of ``otherwise``."""
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
    """Return JSON values for the record of an edit: each hyperparameter, and the reasons."""
    values = {name: list(s.value) if isinstance(s.value, tuple) else s.value for name, s in settings.items()}
    return values | {"reasons": {name: setting.reason for name, setting in settings.items()}}


def template_length() -> Any:
    """Return the config field of methods that sample five left contexts of one length, as MEMIT does."""
    return option("length of each of the five sampled left contexts, in tokens", 10, validators.gt(0))


@frozen(kw_only=True)
class OffsetConfig:
    """Options of every method that optimizes an offset of a hidden state."""

    steps: int | None = derived("maximum number of loss evaluations per target, one more than updates", positive)
    lr: float | None = derived("learning rate of the target", positive)
    weight_decay: float | None = derived("weight of |delta| / |h|^2 in the loss of the target", not_negative)
    clamp: float | None = derived("maximum |delta| / |h|", positive)


def corpus_option(use: str) -> Any:
    """Return the config field of a text; ``use`` completes "text ..."."""
    return option(
        f"text {use}: wordnet (in the package), a text file with one document per line, or "
        "a dataset on the Hub (OWNER/NAME:CONFIGURATION)",
        "wordnet",
        file=True,
        words=("wordnet",),
    )


def covariance_tokens() -> Any:
    """Return the config field of the number of tokens for the key covariance."""
    return option("number of corpus tokens to use", 100_000, validators.gt(0))


def document_length_option(default: int) -> Any:
    """Return the config field of the maximum length of a document."""
    return option("maximum length of a corpus document, in tokens", default, validators.gt(0))


@frozen(kw_only=True)
class TargetConfig(OffsetConfig):
    """Options of every method that optimizes a target for each edit and uses the key covariance."""

    kl: float = option(
        "weight of KL(current || original) at the subject in the loss of the target", 0.0625, validators.ge(0)
    )
    stop_loss: float = option("stop optimizing a target when its loss is below this value", 0.05, validators.ge(0))
    corpus: str = corpus_option("for the key covariance")
    tokens: int = covariance_tokens()
    document_length: int = document_length_option(1024)
    templates: tuple[str, ...] | None = option("left contexts to use instead of sampled ones, each ending in {}", None)


@frozen(kw_only=True)
class MultiLayerConfig(TargetConfig):
    """Options of a method that edits several layers."""

    layers: tuple[int, ...] | Literal["trace"] | None = derived(
        "layers to edit, in ascending order, or trace (the layers that ke trace suggests); the target is at the last"
    )
    template_length: int = template_length()


@frozen(kw_only=True)
class SingleLayerConfig(TargetConfig):
    """Options of a method that edits one layer."""

    layer: int | Literal["trace"] | None = derived("layer to edit, or trace (the layer that ke trace suggests)")


@frozen(kw_only=True)
class RankOneConfig(SingleLayerConfig):
    """Options of ROME and its successors."""

    mom2_adjustment: bool = option(
        "true = key direction C^-1 k, as the authors; false = k itself, as EasyEdit", default=True
    )


# --- values that follow from a shape ---------------------------------------------------------------------------

NULL_SPACE_SETTINGS: Settings = {
    "nullspace_threshold": Setting(None, "per layer: the mean eigenvalue of C"),
    "l2": Setting(None, "per layer: the mean of |P k|^2 over the corpus, which moves a typical key half of the way"),
}
"""Threshold and ridge of ``null_space`` for a model without published ones: they follow from C."""


class SelectsLayers(Protocol):
    """Config of a method that edits several layers."""

    @property
    def layers(self) -> tuple[int, ...] | Literal["trace"] | None:
        """The edited layers."""

    @property
    def lr(self) -> float | None:
        """Learning rate of the target."""


def edited_layers(shape: Shape) -> Setting:
    """Return the layers to edit in a model without published ones."""
    window = _window(shape.blocks)
    return Setting(window, f"{len(window)} layers ending at 27% of {shape.blocks} blocks, where published layers end")


def multi_layer_settings(
    config: SelectsLayers, facts: ModelFacts, *, table: Mapping[Key, Published] = PUBLISHED_MULTI_LAYER
) -> dict[str, Setting]:
    """Return layers and target of a method that edits several layers: from ``table``, or derived.

    Raises BadConfig for a missing trace.
    """
    shape = facts.shape
    layers = _traced(facts, lambda trace: trace.layers) if config.layers == "trace" else edited_layers(shape)
    clamp = 4.0 if shape.rms_norm else 0.75
    return resolve_target(config, facts, table.get(shape.key), {"layers": layers} | _target(shape, clamp))


def single_layer_settings(
    config: SingleLayerConfig,
    facts: ModelFacts,
    *,
    table: Mapping[Key, Published] = PUBLISHED_SINGLE_LAYER,
    clamp: float = 4.0,
) -> dict[str, Setting]:
    """Return layer and target of a method that edits one layer: from ``table``, or derived with that ``clamp``.

    Raises BadConfig for a missing trace.
    """
    shape = facts.shape
    share = 0.17 if shape.rms_norm else 0.35
    if config.layer == "trace":
        layer = _traced(facts, lambda trace: trace.layer)
    else:
        reason = f"{share:.0%} of {shape.blocks} blocks, where published layers are ({shape.norm})"
        layer = Setting(min(max(round(share * shape.blocks), 1), max(shape.blocks - 2, 0)), reason)
    return resolve_target(config, facts, table.get(shape.key), {"layer": layer} | _target(shape, clamp))


def _target(shape: Shape, clamp: float) -> dict[str, Setting]:
    return {
        "steps": Setting(25, "published for most models"),
        "lr": Setting(0.5, "published for most models"),
        "weight_decay": Setting(1e-3 if shape.rms_norm else 0.5, shape.norm),
        "clamp": Setting(clamp, shape.norm),
    }


def resolve_target(
    config: object, facts: ModelFacts, published: Published | None, otherwise: Settings
) -> dict[str, Setting]:
    """Resolve layers and target; a rate that is neither given nor published fits the scale of the hidden states.

    Adam changes every element of the target by about lr per step, whatever the model's scale. If states are large
    (SmolLM2-135M: 5.3 per element at layer 8), the published 0.5 is too small, and some targets do not converge in 25
    steps. Then the rate is a fifth of the root mean square of an element.
    """
    found = resolve_hyperparameters(config, published, otherwise)
    layer = found["layer"].value if "layer" in found else found["layers"].value[-1]
    # A missing layer is refused later, when the model is opened.
    if published is None and found["lr"] is otherwise["lr"] and 0 <= layer < facts.shape.blocks:
        size = facts.scale(layer)
        if size / STEPS_ACROSS > found["lr"].value:
            reason = f"a fifth of the root mean square of the hidden state at layer {layer}, {size}"
            found["lr"] = Setting(size / STEPS_ACROSS, reason)
    return found


def _traced(facts: ModelFacts, pick: Callable[[Trace], Any]) -> Setting:
    trace = facts.trace()
    if trace is None:
        raise BadConfig("no causal trace of this model was found", hint="run ke trace --model M --facts FILE first")
    return Setting(pick(trace), f"causal tracing: {trace.rule}" if trace.traced else trace.rule)


def _window(blocks: int) -> tuple[int, ...]:
    """Return the layers to edit: five (a sixth of a shallow model) ending at 27% of the depth.

    The first and the last layer are never edited.
    """
    count = 5 if blocks >= SHALLOW else max(2, round(blocks / 6))
    top = round(0.27 * blocks) if blocks >= SHALLOW else max(round(0.27 * blocks), count)
    top = min(top, max(blocks - 2, 0))
    return tuple(range(max(top - count + 1, min(1, top)), top + 1))
