"""What one run needs, everything resolved and built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from ke_core.runner.usage import Phase
from ke_core.spec.protocols import Ask, Dataset, Editor, Judge, Metric, ModelMetric, Session
from ke_core.spec.queries import Case
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Component, RunSpec
from ke_core.spec.specs import EditorSpec, MetricSpec


@frozen(kw_only=True)
class Judging:
    """A judge, and what stands for it on the lines it writes. ``scored``: it judges log-probabilities too."""

    component: Component
    judge: Judge
    scored: bool = False


@frozen(kw_only=True)
class Measure:
    """A metric, what stands for it in the scores, how they are broken down, and what it asks of every model."""

    component: Component
    spec: MetricSpec
    metric: Metric | ModelMetric
    asks: tuple[Ask, ...] = ()


@frozen(kw_only=True)
class Job:
    """One run: ``cases`` are the selected ones, in file order.

    ``hides``: the dataset hides edits from some cases. ``spec`` holds everything that changes a reply; judge
    and metrics may change afterwards, on the same records. ``files``: where the user's own files lie that the dataset
    was read from, by what stands for them in ``spec``. ``before``: what preparing it took, for its log.
    """

    spec: RunSpec
    session: Session[Any]
    editor: Editor
    editor_spec: EditorSpec
    dataset: Dataset
    cases: tuple[Case, ...]
    files: Mapping[str, str] = field(factory=dict)
    hides: bool = False
    judging: Judging
    measures: tuple[Measure, ...] = ()
    before: tuple[Phase, ...] = ()

    @property
    def asking(self) -> tuple[Measure, ...]:
        """The metrics that ask something of every model."""
        return tuple(measure for measure in self.measures if measure.asks)


@frozen(kw_only=True)
class Finished:
    """How a run ended. ``failures``: replies that are a ``Failure`` (exit status 1 if any), ``skipped``: cases.

    ``seconds`` is the wall time of this asking, not of what was recorded before it.
    """

    failures: int
    skipped: int
    seconds: float
    scores: tuple[MetricScore, ...] = ()
