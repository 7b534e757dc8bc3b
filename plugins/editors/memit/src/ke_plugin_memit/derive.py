"""MEMIT's hyperparameters for the model at hand: published where there is a publication, else from its shape.

lambda (``mom2_weight``). The update of one layer moves one edit's value by the share

    s / (lambda + s),    s = k^T C^-1 k,

of what is wanted (MEMIT equation 14 for one key). Over the tokens that C = E[k k^T] is made of, the mean of s is
tr(C^-1 C) = f, the length of a key, in every model. So lambda = f asks that a typical key be moved half way in each
layer, and that is what the published values do: GPT-J 15000 / 16384 = 0.92, LLaMA-3-8B 15000 / 14336 = 1.05,
Qwen2.5-7B 15000 / 18944 = 0.79, LLaMA-2-7B 15000 / 11008 = 1.36; only GPT-2 XL is stiffer, 20000 / 6400 = 3.1.

The learning rate. Adam moves every element of z by about lr a step, whatever the model's scale. Where states are large
(SmolLM2-135M: 5.3 an element at layer 8), the published 0.5 is too short a step: some z never arrive in 25 of
them. There a fifth of an element's root mean square is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import asdict, evolve, field, fields, frozen

from ke_core.weights import ModuleMap
from ke_plugin_memit import MemitConfig

STEPS_ACROSS = 5  # steps in which Adam can cross a typical state
SHALLOW = 16  # blocks; below, a window of five would be most of the model


@frozen(kw_only=True)
class Settings:
    """Every hyperparameter that depends on the model, and where each value comes from."""

    layers: tuple[int, ...]
    steps: int
    lr: float
    weight_decay: float
    clamp: float
    mom2_weight: float
    reasons: Mapping[str, str] = field(factory=dict, eq=False)


_MEMIT = Settings(layers=(3, 4, 5, 6, 7, 8), steps=25, lr=0.5, weight_decay=0.5, clamp=0.75, mom2_weight=15000.0)
_EASYEDIT = evolve(_MEMIT, layers=(4, 5, 6, 7, 8), weight_decay=1e-3, clamp=4.0)

# (model_type, blocks, hidden, inner): never a name or a path (pitfall X4)
PUBLISHED: Mapping[tuple[str, int, int, int], tuple[str, Settings]] = {
    ("gpt2", 48, 1600, 6400): (
        "GPT-2 XL, MEMIT's authors",
        evolve(_MEMIT, layers=(13, 14, 15, 16, 17), steps=20, mom2_weight=20000.0),
    ),
    ("gptj", 28, 4096, 16384): ("GPT-J, MEMIT's authors", _MEMIT),
    ("llama", 32, 4096, 11008): ("LLaMA-2-7B, EasyEdit", _EASYEDIT),
    ("llama", 32, 4096, 14336): ("LLaMA-3-8B, AlphaEdit's authors", evolve(_MEMIT, layers=(4, 5, 6, 7, 8), lr=0.1)),
    ("llama", 28, 3072, 8192): ("LLaMA-3.2-3B, EasyEdit", _EASYEDIT),
    ("mistral", 32, 4096, 14336): ("Mistral-7B, EasyEdit", _EASYEDIT),
    ("qwen2", 28, 3584, 18944): ("Qwen2.5-7B, EasyEdit", _EASYEDIT),
}
VALUES = tuple(f.name for f in fields(Settings) if f.name != "reasons")


def derive(config: MemitConfig, modules: ModuleMap, scale: Callable[[int], float]) -> Settings:
    """``config`` with every None replaced; ``scale`` of a layer is the root mean square of an element of its output.

    Raises KEError for layers that the model does not have.
    """
    shape = (str(modules.config.model_type), len(modules.layers), modules.hidden, modules.inner)
    if shape in PUBLISHED:
        source, found = PUBLISHED[shape]
        found = evolve(found, reasons=dict.fromkeys(VALUES, f"published for {source}"))
    else:
        found = from_shape(blocks=len(modules.layers), inner=modules.inner, rms=modules.rms_norm)
    given = {name: value for name in VALUES if (value := getattr(config, name)) is not None}
    made = evolve(found, **given, reasons=dict(found.reasons) | dict.fromkeys(given, "given"))
    modules.check_layers(made.layers)
    if shape in PUBLISHED or "lr" in given:
        return made
    size = scale(made.layers[-1])
    if size / STEPS_ACROSS <= made.lr:
        return made
    reason = f"a fifth of the root mean square of a state's element at layer {made.layers[-1]}, {size}"
    return evolve(made, lr=size / STEPS_ACROSS, reasons=dict(made.reasons) | {"lr": reason})


def from_shape(*, blocks: int, inner: int, rms: bool) -> Settings:
    """Hyperparameters for a decoder that nobody has published any for."""
    layers = window(blocks)
    norm = "RMSNorm, as published for LLaMA and Qwen2" if rms else "LayerNorm, as published for GPT-2 XL and GPT-J"
    return Settings(
        layers=layers,
        steps=25,
        lr=0.5,
        weight_decay=1e-3 if rms else 0.5,
        clamp=4.0 if rms else 0.75,
        mom2_weight=float(inner),
        reasons={
            "layers": f"{len(layers)} layers ending at 27 % of {blocks} blocks, where published windows end",
            "steps": "published for all but GPT-2 XL",
            "lr": "published for most models",
            "weight_decay": norm,
            "clamp": norm,
            "mom2_weight": f"length of a key, {inner}: a typical key is moved half way in each layer",
        },
    )


def window(blocks: int) -> tuple[int, ...]:
    """Layers to edit: five (a sixth of a shallow model) that end at 27 % of the depth, not the first nor the last."""
    count = 5 if blocks >= SHALLOW else max(2, round(blocks / 6))
    top = min(max(round(0.27 * blocks), count), max(blocks - 2, 0))
    return tuple(range(max(top - count + 1, 0), top + 1))


def as_details(settings: Settings) -> dict[str, object]:
    """JSON values, for the record."""
    return asdict(settings) | {"layers": list(settings.layers), "reasons": dict(settings.reasons)}
