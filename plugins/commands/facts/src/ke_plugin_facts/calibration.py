"""Measured decay of an editor on a model, and the edit budget that follows from it.

Measurements come from three places: ``calibration.json``, which ``benchmarks/budget_table.py`` writes, runs of ``ke
eval`` with the metric ``drift``, and the versions of the managed model. The file is used for all models of one shape;
the others for the same model. The options of the editor must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

from attrs import frozen

from ke_core.app import Batch, Component, RunFolder, count_noun, read_scores, runs_in
from ke_core.plugin import BadRun, EditFailed, from_json, loads
from ke_plugin_facts.budget import REACH, DecayPoint, PowerLaw, damage_of, decay_law, percent, rise_of
from ke_plugin_facts.unrelated import METRIC, RATIO
from ke_plugin_facts.versions import Lock
from ke_weights.editing import LoadedModel


@frozen(kw_only=True)
class CalibratedEditor:
    """``options``: as resolved, defaults included. ``points``: measured on one model."""

    editor: str
    options: Mapping[str, Any]
    points: tuple[DecayPoint, ...]


@frozen(kw_only=True)
class BudgetCalibration:
    """Measurements on one model. ``shape``: the models that they are used for, as ``config_shape`` returns it."""

    model: str
    shape: str
    editors: tuple[CalibratedEditor, ...]


@frozen(kw_only=True)
class EditBudget:
    """How many edits at once keep the rise of the perplexity within ``limit``.

    ``planned``: the edits of the next version. ``law``: from edits to damage; None if unknown, for the reason ``why``.
    ``measured``: the largest measured number of edits. ``sources``: of the measurements: models, run folders, versions.
    """

    editor: str
    planned: int
    limit: float
    law: PowerLaw | None = None
    measured: int = 0
    points: int = 0
    sources: tuple[str, ...] = ()
    why: str = ""

    @property
    def reach(self) -> int:
        """The largest number of edits for which there is a prediction."""
        return int(self.measured * REACH)

    @property
    def rise(self) -> float | None:
        """The predicted rise of the perplexity for the planned edits, as a fraction. None if it is unknown."""
        return rise_of(self.law.at(self.planned)) if self.law and 0 < self.planned <= self.reach else None

    @property
    def edits(self) -> int | None:
        """The budget: the largest number of edits within the limit, at most ``reach``. None if it is unknown."""
        return min(int(self.law.inverse(damage_of(self.limit))), self.reach) if self.law else None

    @property
    def exceeded(self) -> bool:
        """Whether the plan is known to be over the budget."""
        return self.edits is not None and self.edits < self.reach and self.planned > self.edits


def over_budget(budget: EditBudget, rise: float | None, how: str) -> EditFailed:
    """Return the error for edits that raise the perplexity by more than the limit. ``how``: predicted or measured."""
    raised = f"{percent(rise)}, more than" if rise is not None else "more than"
    exceeds = "exceed" if budget.planned > 1 else "exceeds"
    return EditFailed(
        f"{count_noun(budget.planned, 'edit')} of {budget.editor} {exceeds} the edit budget: the {how} rise of the "
        f"perplexity of unrelated text is {raised} the limit of {percent(budget.limit)}",
        hint="make fewer edits, use another editor, raise the limit with --max-rise, or pass --force; "
        "nothing was changed",
    )


def config_shape(config: Any) -> str:
    """Return what models must have in common to use each other's measurements. ``config``: of transformers."""
    return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"


def shipped() -> tuple[BudgetCalibration, ...]:
    """Return the measurements that come with this plugin."""
    text = files("ke_plugin_facts").joinpath("calibration.json").read_text(encoding="utf-8")
    return tuple(from_json(loads(text), list[BudgetCalibration], of="calibration.json", error=BadRun))


@frozen(kw_only=True)
class DecaySources:
    """Where measurements come from, next to the shipped ones: a folder of runs, and the versions of a managed model."""

    runs: Path
    versions: tuple[Lock, ...] = ()


def edit_budget(
    loaded: LoadedModel, component: Component, planned: int, limit: float, sources: DecaySources
) -> EditBudget:
    """Return the budget of an editor on a loaded model, from all measurements of it."""
    known, why = shipped_decay(config_shape(loaded.model.module.config), component)
    known += recorded_decay(sources.runs, loaded.base.model.digest, component)
    known += version_decay(sources.versions, loaded.base.weights, component)
    points = [point for _, point in known]
    law = decay_law(points)
    return EditBudget(
        editor=component.name,
        planned=planned,
        limit=limit,
        law=law,
        measured=max((one.edits for one in points), default=0),
        points=len(points),
        sources=tuple(dict.fromkeys(source for source, _ in known)),
        why="" if law else why or _unusable(points),
    )


def _unusable(points: Sequence[DecayPoint]) -> str:
    """Return why measurements give no law: they are too few, or show no damage."""
    if not points:
        return "no measurement of it on this model"
    return f"its {count_noun(len(points), 'measurement')} on this model are too few or show no damage"


def shipped_decay(shape: str, editor: Component) -> tuple[list[tuple[str, DecayPoint]], str]:
    """Return the shipped measurements of an editor on models of this shape, and why there are none."""
    for one in shipped():
        known = next((found for found in one.editors if found.editor == editor.name), None)
        if one.shape != shape or known is None:
            continue
        different = sorted(key for key, value in editor.options.items() if known.options.get(key) != value)
        if different:
            return [], f"the measurements have other options: {', '.join(different)}"
        return [(one.model, point) for point in known.points], ""
    return [], ""


def version_decay(versions: Iterable[Lock], weights: str, editor: Component) -> Iterator[tuple[str, DecayPoint]]:
    """Yield what the versions of a managed model measured, with the same base weights and editor."""
    for lock in versions:
        same = (lock.editor.name, lock.editor.options) == (editor.name, editor.options)
        if lock.action == "apply" and lock.cost is not None and same and lock.base.weights == weights:
            cost = lock.cost
            yield (f"version {lock.version}", DecayPoint(edits=cost.edits, norm=cost.norm, damage=damage_of(cost.rise)))


def recorded_decay(root: Path, digest: str, editor: Component) -> Iterator[tuple[str, DecayPoint]]:
    """Yield the decay in runs of this editor on the model with this digest. Runs in sequence are left out."""
    for path, folder in runs_in(root):
        if not isinstance(folder, RunFolder) or not folder.finished:
            continue
        spec = folder.spec
        same = (spec.editor.name, spec.editor.options) == (editor.name, editor.options)
        if not same or spec.model.digest != digest or spec.plan.sequential:
            continue
        ratio = _ratio(folder)
        if ratio is None:
            continue
        edits = [one.edits for one in folder.read() if isinstance(one, Batch) and one.edits and not one.failed]
        if edits:
            yield str(path), DecayPoint(edits=round(fmean(edits)), damage=damage_of(ratio - 1))


def _ratio(folder: RunFolder) -> float | None:
    """Return the mean ratio of the perplexities of unrelated text, after editing to before. None if not measured."""
    try:
        scores = read_scores(folder).scores
    except BadRun:
        return None  # not scored yet
    found = [one for one in scores if (one.metric, one.aspect, one.phase) == (METRIC, RATIO, "after") and not one.tags]
    return found[0].value if found else None
