"""What an editor knows about a model, and the hyperparameters that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class Shape:
    """``family`` is transformers' ``model_type``; ``inner`` the length of a key (the MLP's inner size);
    ``rms_norm`` whether states are normed without centring (LLaMA and its kin), not by LayerNorm (GPT).
    """

    family: str
    blocks: int
    hidden: int
    inner: int
    rms_norm: bool

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What published values are found by."""
        return self.family, self.blocks, self.hidden, self.inner

    @property
    def norm(self) -> str:
        """The norm, as a reason."""
        return "RMSNorm, as in LLaMA and Qwen2" if self.rms_norm else "LayerNorm, as in GPT-2 XL and GPT-J"


@frozen(kw_only=True)
class Trace:
    """Layers that causal tracing suggests: one for ROME, a range for MEMIT, and the rule that chose them.

    ``traced``: by the model's own curves; else the curves chose nothing, and the rule says why and what did.
    """

    layer: int
    layers: tuple[int, ...]
    rule: str
    traced: bool = True


@frozen(kw_only=True)
class ModelFacts:
    """What derived values rest on. ``scale`` of a layer is the root mean square of an element of its output;
    ``trace`` gives the layers that ``ke trace`` suggested for these weights, if it was run.
    """

    shape: Shape
    scale: Callable[[int], float]
    trace: Callable[[], Trace | None] = lambda: None


@frozen
class Setting:
    """One hyperparameter's value, and where it comes from."""

    value: Any
    reason: str


Settings = Mapping[str, Setting]
