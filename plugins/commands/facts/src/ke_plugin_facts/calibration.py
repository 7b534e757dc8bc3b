"""Measured decay of an editor on a model, and the edit budget that follows from it.

Measurements come from two places: ``calibration.json``, which ``benchmarks/budget.py`` writes, and runs of ``ke eval``
with the metric ``drift``. The file has the default options of each editor and models by their shape; runs count if
model and options are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

from attrs import frozen

from ke_core.app import Batch, Component, RunFolder, count_noun, read_scores, runs_in
from ke_core.plugin import BadRun, EditFailed, from_json, loads
from ke_plugin_facts.budget import REACH, DecayPoint, PowerLaw, damage_of, decay_law, rise_of
from ke_weights.editing import LoadedModel

METRIC, RATIO = "drift", "perplexity-ratio"


@frozen(kw_only=True)
class CalibratedEditor:
    """``options``: as resolved, defaults included. ``points``: measured on one model."""

    editor: str
    options: Mapping[str, Any]
    points: tuple[DecayPoint, ...]


@frozen(kw_only=True)
class Calibration:
    """Measurements on one model. ``shape``: the models that they are used for, as ``config_shape`` returns it."""

    model: str
    shape: str
    editors: tuple[CalibratedEditor, ...]


@frozen(kw_only=True)
class EditBudget:
    """How many edits at once keep the rise of the perplexity within ``limit``.

    ``planned``: the edits of the next version. ``law``: from edits to damage; None if unknown, for the reason ``why``.
    ``measured``: the largest measured number of edits. ``sources``: where the measurements come from.
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
    raised = f" by {rise:.1%} ({how})" if rise is not None else f" by more than that ({how})"
    return EditFailed(
        f"{count_noun(budget.planned, 'edit')} of {budget.editor} would exceed the edit budget: the perplexity of "
        f"unrelated text rises{raised}, and the limit is {budget.limit:.1%}",
        hint="make fewer edits, use another editor, raise the limit with --max-rise, or pass --force; "
        "nothing was changed",
    )


def config_shape(config: Any) -> str:
    """Return what models must have in common to use each other's measurements. ``config``: of transformers."""
    return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"


def shipped() -> tuple[Calibration, ...]:
    """Return the measurements that come with this plugin."""
    text = files("ke_plugin_facts").joinpath("calibration.json").read_text(encoding="utf-8")
    return tuple(from_json(loads(text), list[Calibration], of="calibration.json", error=BadRun))


def edit_budget(loaded: LoadedModel, component: Component, planned: int, limit: float, runs: Path) -> EditBudget:
    """Return the budget of an editor on a loaded model, from all measurements of it."""
    shape, name = config_shape(loaded.model.module.config), component.name
    points: list[DecayPoint] = []
    sources, reasons = [], []
    for one in shipped():
        known = next((found for found in one.editors if found.editor == name), None)
        if one.shape != shape or known is None:
            continue
        if different := sorted(key for key, value in component.options.items() if known.options.get(key) != value):
            reasons.append(f"the measurements have other options: {', '.join(different)}")
            continue
        points += known.points
        sources.append(one.model)
    for path, found in recorded_decay(runs, loaded.base.model.digest, component):
        points.append(found)
        sources.append(path)
    law = decay_law(points)
    if law is None:
        reasons = reasons or [f"{count_noun(len(points), 'measurement')} of it on this model"]
    return EditBudget(
        editor=name,
        planned=planned,
        limit=limit,
        law=law,
        measured=max((one.edits for one in points), default=0),
        points=len(points),
        sources=tuple(sources),
        why=reasons[0] if law is None else "",
    )


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
        edits = [one.edits for one in folder.read() if isinstance(one, Batch) and one.edits and not one.failed]
        if ratio is not None and edits:
            yield str(path), DecayPoint(edits=round(fmean(edits)), damage=damage_of(ratio - 1))


def _ratio(folder: RunFolder) -> float | None:
    """Return the mean ratio of the perplexities of unrelated text, after editing to before. None if not measured."""
    try:
        scores = read_scores(folder).scores
    except BadRun:
        return None  # not scored yet
    found = [one for one in scores if (one.metric, one.aspect, one.phase) == (METRIC, RATIO, "after") and not one.tags]
    return found[0].value if found else None
