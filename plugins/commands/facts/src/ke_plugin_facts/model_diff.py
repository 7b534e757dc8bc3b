"""What differs between two models of one architecture: answers to facts, and weights."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.app import Catalog, ModelChoice, count_noun
from ke_core.plugin import BadConfig, Progress
from ke_plugin_facts.fact_file import ManagedFact
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts
from ke_weights.editing import LoadedModel, open_model_for_edits

RANK_TOLERANCE = 1e-3
"""Singular values below this fraction of the largest do not count for the rank."""
LOW_PRECISION = (torch.bfloat16, torch.float16)
LOW = 0.25
"""A rank is low if it is at most this fraction of the full one."""
LAYER = re.compile(r"\.(\d+)\.")
OUTPUT_OF_MLP = ("down_proj", "c_proj", "fc_out", "dense_4h_to_h", "fc2")
MASS_EDITORS = "memit, alphaedit, emmet, pmet"


@frozen(kw_only=True)
class FactDifference:
    """``ratio``: natural log of the target's probability in the second model over that in the first, by token."""

    fact: ManagedFact
    first: Completion
    second: Completion
    ratio: float

    @property
    def changed(self) -> bool:
        """Whether one of the two models answers the target, and the other does not."""
        target = [self.fact.given.target]
        return self.first.begins_with(target) != self.second.begins_with(target)


@frozen(kw_only=True)
class WeightDifference:
    """A weight that differs. ``size``: norm of the difference by that of the weight. ``rank``: None for a vector."""

    name: str
    size: float
    rank: int | None
    full: int | None

    @property
    def low_rank(self) -> bool:
        """Whether the difference has a low rank."""
        return self.rank is not None and self.full is not None and self.rank <= LOW * self.full


@frozen(kw_only=True)
class ModelDifference:
    """``facts``: those with the largest change first. ``weights``: in the order of the model."""

    facts: tuple[FactDifference, ...]
    weights: tuple[WeightDifference, ...]


def compare_models(
    first: ModelChoice, second: ModelChoice, facts: Sequence[ManagedFact], catalog: Catalog, progress: Progress
) -> ModelDifference:
    """Ask both models every fact, and compare their weights. Raises BadConfig for models of different shapes."""
    one = open_model_for_edits(first, catalog, progress)
    other = open_model_for_edits(second, catalog, progress)
    weights = weight_differences(one.model.module, other.model.module)
    before, after = _answers(one, facts), _answers(other, facts)
    found = [
        FactDifference(
            fact=fact,
            first=before[fact.id],
            second=after[fact.id],
            ratio=after[fact.id].logprobs[0] - before[fact.id].logprobs[0],
        )
        for fact in facts
    ]
    found.sort(key=lambda difference: -abs(difference.ratio))
    return ModelDifference(facts=tuple(found), weights=weights)


def _answers(loaded: LoadedModel, facts: Sequence[ManagedFact]) -> dict[str, Completion]:
    prompts = [PromptWithObjects(id=one.id, prompt=one.given.prompt, objects=(one.given.target,)) for one in facts]
    return dict(complete_prompts(loaded.session, prompts))


def weight_differences(first: nn.Module, second: nn.Module) -> tuple[WeightDifference, ...]:
    """Return the parameters that differ. Raises BadConfig for other names or shapes."""
    left, right = dict(first.named_parameters()), dict(second.named_parameters())
    strange = left.keys() ^ right.keys() or {name for name in left if left[name].shape != right[name].shape}
    if strange:
        raise BadConfig(
            f"the models differ in {min(strange)}, so their weights cannot be compared",
            hint="compare two checkpoints of the same model",
        )
    return tuple(
        _difference(name, left[name].detach(), right[name].detach())
        for name in left
        if not torch.equal(left[name], right[name])
    )


def _difference(name: str, left: Tensor, right: Tensor) -> WeightDifference:
    """Return the difference. ``right`` is the edited weight, so the difference contains its rounding."""
    delta = right.double() - left.double()
    rank = full = None
    if delta.dim() == 2:
        rank, full = _rank(torch.linalg.svdvals(delta), rounding(right)), min(delta.shape)
    size = float(delta.norm() / left.double().norm().clamp_min(torch.finfo(torch.float64).tiny))
    return WeightDifference(name=name, size=size, rank=rank, full=full)


def rounding(weight: Tensor) -> float:
    """Return the size of singular values that rounding to the stored dtype can cause.

    Rounding changes an entry w by at most eps/2 |w|. Independent errors of that size have a largest singular value of
    at most about the largest norm of a row plus that of a column (arXiv:1408.6185). Most errors are
    smaller than eps/2 |w|: with random matrices, the largest singular value was at most 0.32 eps instead of 0.5 eps
    times these norms, also if both models are rounded.
    """
    entries = weight.double()
    norms = entries.norm(dim=0).max() + entries.norm(dim=1).max()
    return float(torch.finfo(_stored_dtype(weight)).eps / 2 * norms)


def _stored_dtype(weight: Tensor) -> torch.dtype:
    """Return the dtype in which the weight was stored: a checkpoint in bfloat16 can be loaded in float32."""
    exact = (dtype for dtype in LOW_PRECISION if torch.equal(weight.to(dtype).to(weight.dtype), weight))
    return next(exact, weight.dtype)


def _rank(values: Tensor, noise: float) -> int:
    """Return the number of singular values above the rounding; of all that count, if none is above it."""
    counted = values[values > RANK_TOLERANCE * values[0]]
    return int((counted > noise).sum()) or len(counted)


def looks_like(weights: Sequence[WeightDifference]) -> str:
    """Return a sentence about which kind of editor makes such a change."""
    if not weights:
        return "The weights are equal."
    layers = sorted({int(found[1]) for one in weights if (found := LAYER.search(one.name))})
    where = count_noun(len(weights), "weight")
    if layers:
        where += f" in {'layer' if len(layers) == 1 else 'layers'} {', '.join(map(str, layers))}"
    mlp = all(one.name.removesuffix(".weight").endswith(OUTPUT_OF_MLP) for one in weights)
    if mlp and len(weights) == 1 and weights[0].rank == 1:
        return f"A rank-one update of one MLP output ({where}): as rome and r-rome make for one fact."
    if mlp and all(one.low_rank for one in weights):
        most = max(one.rank or 0 for one in weights)
        return f"Updates of rank {most} of MLP outputs ({where}): as {MASS_EDITORS} make, one rank per fact."
    if all(one.low_rank for one in weights):
        return f"Low-rank updates ({where}): as LoRA makes."
    return f"Updates of full rank ({where}): as fine-tuning makes."
