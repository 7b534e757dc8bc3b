"""The two carriers of a run: what was requested, and what was resolved from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import field, frozen

from ke_core.runner.plan import Group, Stage, stages
from ke_core.runner.resolve import Options, ResolvedComponent
from ke_core.runner.session import ModelChoice
from ke_core.runner.usage import Phase
from ke_core.spec.protocols import Dataset, Editor, Judge, Metric, ModelMetric, Session
from ke_core.spec.queries import Case, Form
from ke_core.spec.requests import EditorRequest
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Component, Plan, RunSpec
from ke_core.spec.specs import EditorSpec, MetricSpec


@frozen(kw_only=True)
class EvalRequest:
    """The options of ``ke eval``. Empty fields mean the default of the dataset or of the editor.

    ``data_dir`` and ``prompts`` set the dataset's options of these names.
    """

    editor: str
    dataset: str
    model: ModelChoice
    options: Options = field(factory=dict)
    plan: Plan = field(factory=Plan)
    styles: tuple[str, ...] = ()
    edited_form: Form | None = None
    judge: str = ""
    metrics: tuple[str, ...] = ()
    seed: int = 0
    prompts: str = ""
    data_dir: str = ""


@frozen(kw_only=True)
class OpenJudge:
    """A judge that can be called, and its specification in records.

    ``scored``: it also judges log-probabilities. ``session``: of a judge that asks a model.
    """

    component: Component
    judge: Judge
    scored: bool = False
    session: Session[Any] | None = None


@frozen(kw_only=True)
class Measure:
    """A metric, its specification in the scores, and its requests to every model."""

    component: Component
    spec: MetricSpec
    metric: Metric | ModelMetric
    requests: tuple[EditorRequest, ...] = ()


@frozen(kw_only=True)
class ResolvedRun:
    """Everything that a run needs.

    ``spec`` holds what changes a reply. Judge and metrics may change later, on the same records. ``cases`` are the
    selected ones in file order, ``groups`` are the cases whose edits are applied together. ``session`` is None until
    ``load_model``. ``hides``: the dataset hides edits from some cases. ``files``: the paths of the user's own files
    that the dataset was read from, by their digest in ``spec``. ``before``: the measured phases of the preparation.
    """

    spec: RunSpec
    method: ResolvedComponent[EditorSpec]
    dataset: Dataset
    cases: tuple[Case, ...]
    groups: tuple[Group, ...]
    judging: OpenJudge
    measures: tuple[Measure, ...] = ()
    session: Session[Any] = field(default=None)
    files: Mapping[str, str] = field(factory=dict)
    hides: bool = False
    before: tuple[Phase, ...] = ()

    @property
    def editor(self) -> Editor:
        """The editor, built at the first use."""
        editor: Editor = self.method.built
        return editor

    @property
    def editor_spec(self) -> EditorSpec:
        """The specification of the editor."""
        return self.method.spec

    @cached_property
    def stages(self) -> Sequence[Stage]:
        """The steps of a sequential run. Empty for another run."""
        return stages(self.groups, self.spec.plan) if self.spec.plan.sequential else ()

    @property
    def asked(self) -> Sequence[Group]:
        """The groups whose cases are asked after an edit, in order."""
        return [stage.asked for stage in self.stages] or self.groups

    @property
    def asking(self) -> tuple[Measure, ...]:
        """The metrics that send requests of their own to every model."""
        return tuple(measure for measure in self.measures if measure.requests)


@frozen(kw_only=True)
class Finished:
    """The result of a run. ``failures``: replies that are a ``Failure``. ``skipped``: cases.

    ``seconds`` is the wall time of this process, without what earlier processes recorded.
    """

    skipped: int
    seconds: float
    failures: int = 0
    scores: tuple[MetricScore, ...] = ()
