"""Fields of config classes, facts about a model, and the hyperparameters that are derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import field, frozen

T = TypeVar("T")


def option(text: str, default: T, check: Any = None, *, file: bool = False, words: tuple[str, ...] = ()) -> T:
    """Return a field of a config class; ``text`` is its help. ``check``: attrs validators.

    ``file``: it may name a file or folder. ``words``: values that are not file names.
    """
    marks = {"help": text} | ({"file": True} if file else {}) | ({"words": words} if words else {})
    return field(default=default, validator=check, metadata=marks)


@frozen(kw_only=True)
class Shape:
    """The shape of a decoder. ``family``: transformers' ``model_type``. ``inner``: the inner size of the MLP, which is
    the length of a key. ``rms_norm``: the model normalizes with RMSNorm (LLaMA) and not with LayerNorm (GPT-2).
    """

    family: str
    blocks: int
    hidden: int
    inner: int
    rms_norm: bool

    @property
    def key(self) -> tuple[str, int, int, int]:
        """The key of published hyperparameters."""
        return self.family, self.blocks, self.hidden, self.inner

    @property
    def norm(self) -> str:
        """The normalization, in words."""
        return "RMSNorm, as in LLaMA and Qwen2" if self.rms_norm else "LayerNorm, as in GPT-2 XL and GPT-J"


@frozen(kw_only=True)
class Trace:
    """Layers that causal tracing suggests: one for ROME, a range for MEMIT, and the rule that selected them.

    ``traced``: the model's curves selected them. Otherwise ``rule`` gives the reason and the fallback.
    """

    layer: int
    layers: tuple[int, ...]
    rule: str
    traced: bool = True


@frozen(kw_only=True)
class ModelFacts:
    """The facts from which hyperparameters are derived. ``scale`` of a layer: the root mean square of its output.
    ``trace``: the layers that ``ke trace`` suggested for these weights, if it was run. ``map_distance`` of a layer, of
    ``up`` or ``down``, and of ``input`` or ``output``: the median distance between two tokens at that map of its MLP.
    """

    shape: Shape
    scale: Callable[[int], float]
    trace: Callable[[], Trace | None] = lambda: None
    map_distance: Callable[[int, str, str], float] = lambda _layer, _part, _side: 1.0


@frozen
class Setting:
    """The value of a hyperparameter, and the reason for it."""

    value: Any
    reason: str


Settings = Mapping[str, Setting]
