"""What one run needs, everything resolved and built."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ke_core.data.queries import Case
from ke_core.data.results import Score
from ke_core.data.runspec import Component, RunSpec
from ke_core.protocols import Dataset, Editor, Judge, Metric, Session
from ke_core.specs import EditorSpec, MetricSpec


@frozen(kw_only=True)
class Judging:
    """A judge, and what stands for it on the lines it writes."""

    component: Component
    judge: Judge


@frozen(kw_only=True)
class Measure:
    """A metric, what stands for it in the scores, and how they are broken down."""

    component: Component
    spec: MetricSpec
    metric: Metric


@frozen(kw_only=True)
class Job:
    """One run: ``cases`` are the selected ones, in file order.

    ``hides``: the dataset hides edits from some cases. ``spec`` holds everything that changes a reply; judge
    and metrics may change afterwards, on the same records.
    """

    spec: RunSpec
    session: Session[Any]
    editor: Editor
    editor_spec: EditorSpec
    dataset: Dataset
    cases: tuple[Case, ...]
    hides: bool = False
    judging: Judging
    measures: tuple[Measure, ...] = ()


@frozen(kw_only=True)
class Finished:
    """How a run ended. ``failures``: replies that are a ``Failure`` (exit status 1 if any), ``skipped``: cases.

    ``seconds`` is the wall time of this asking, not of what was recorded before it.
    """

    failures: int
    skipped: int
    seconds: float
    scores: tuple[Score, ...] = ()
