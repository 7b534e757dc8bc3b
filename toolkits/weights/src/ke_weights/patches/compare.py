"""Compare two patches: their overlap, and the effect of the order of stacking."""

from __future__ import annotations

import torch
from attrs import frozen
from torch import Tensor

from ke_plugin_hf.model import HFModel
from ke_weights.patches.apply import stacked
from ke_weights.patches.delta import inner, norm, shape_of
from ke_weights.patches.format import StoredPatch


@frozen(kw_only=True)
class WeightOverlap:
    """One weight that both change: norms of the updates, and their cosine."""

    name: str
    norms: tuple[float, float]
    cosine: float | None


@frozen(kw_only=True)
class PromptConflict:
    """One prompt with different targets in both."""

    prompt: str
    targets: tuple[str, str]


@frozen(kw_only=True)
class PatchComparison:
    """``same_base``: both were made for the same weights. ``common``: prompts with the same new object in both."""

    same_base: bool
    only: tuple[int, int]
    weights: tuple[WeightOverlap, ...]
    common: tuple[str, ...]
    clashes: tuple[PromptConflict, ...]


@frozen(kw_only=True)
class OrderEffect:
    """Difference of one weight between A then B and B then A: number of entries, and its maximum.

    ``relative``: the largest difference over the largest entry of the sum of both updates. Rounding causes all of it.
    """

    name: str
    entries: int
    differing: int
    largest: float
    relative: float


def compare(one: StoredPatch, other: StoredPatch) -> PatchComparison:
    """Compare two patches by their files only."""
    shared = [name for name in one.deltas if name in other.deltas]
    facts = [{edit.prompt: edit.target for edit in patch.info.edits} for patch in (one, other)]
    both = [prompt for prompt in facts[0] if prompt in facts[1]]
    return PatchComparison(
        same_base=one.info.base.weights == other.info.base.weights,
        only=(len(one.deltas) - len(shared), len(other.deltas) - len(shared)),
        weights=tuple(_overlap(name, one, other) for name in shared),
        common=tuple(prompt for prompt in both if facts[0][prompt] == facts[1][prompt]),
        clashes=tuple(
            PromptConflict(prompt=prompt, targets=(facts[0][prompt], facts[1][prompt]))
            for prompt in both
            if facts[0][prompt] != facts[1][prompt]
        ),
    )


def order_effects(model: HFModel, one: StoredPatch, other: StoredPatch) -> tuple[OrderEffect, ...]:
    """Return the effect of the order for every weight that both change. The model is unchanged afterwards.

    Raises BadPatch if one was not made for these weights.
    """
    shared = [name for name in one.deltas if name in other.deltas]
    base = _copies(model, shared)
    with stacked(model, (one, other)):
        first = _copies(model, shared)
    with stacked(model, (other, one)):
        second = _copies(model, shared)
    return tuple(_effect(name, first[name], second[name], base[name]) for name in shared)


def _overlap(name: str, one: StoredPatch, other: StoredPatch) -> WeightOverlap:
    first, second = one.deltas[name], other.deltas[name]
    norms = norm(first), norm(second)
    comparable = shape_of(first) == shape_of(second) and all(norms)
    return WeightOverlap(
        name=name, norms=norms, cosine=inner(first, second) / (norms[0] * norms[1]) if comparable else None
    )


def _copies(model: HFModel, names: list[str]) -> dict[str, Tensor]:
    return {name: model.module.get_parameter(name).detach().float().cpu().clone() for name in names}


def _effect(name: str, first: Tensor, second: Tensor, base: Tensor) -> OrderEffect:
    off, change = (first - second).abs(), (first - base).abs().max()
    return OrderEffect(
        name=name,
        entries=off.numel(),
        differing=int(torch.count_nonzero(off)),
        largest=float(off.max()),
        relative=float(off.max() / change) if float(change) else 0.0,
    )
