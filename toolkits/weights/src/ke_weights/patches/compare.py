"""Compare two patches: the weights and facts that both change."""

from __future__ import annotations

from attrs import frozen

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


def compare_patches(one: StoredPatch, other: StoredPatch) -> PatchComparison:
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


def _overlap(name: str, one: StoredPatch, other: StoredPatch) -> WeightOverlap:
    first, second = one.deltas[name], other.deltas[name]
    norms = norm(first), norm(second)
    comparable = shape_of(first) == shape_of(second) and all(norms)
    return WeightOverlap(
        name=name, norms=norms, cosine=inner(first, second) / (norms[0] * norms[1]) if comparable else None
    )
