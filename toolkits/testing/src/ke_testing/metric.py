"""The contract of metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from attrs import evolve

from ke_core.plugin import (
    CaseRecord,
    Failure,
    Judgment,
    Metric,
    MetricSpec,
    ModelMetric,
    ModelRecord,
    Outcome,
    Value,
    Verdict,
)
from ke_testing.contract import ComponentContract
from ke_testing.toy import toy_record


class MetricContract(ComponentContract):
    """Set ``name``; override ``record`` if the toy benchmark's case does not suit the metric."""

    kind: ClassVar[str] = "metric"

    @pytest.fixture
    def record(self) -> CaseRecord:
        return toy_record()

    @pytest.fixture
    def metric(self, spec: MetricSpec, config: Any) -> Metric:
        made = spec.build(config)
        assert isinstance(made, Metric)
        return made

    def test_a_record_has_values(self, metric: Metric, record: CaseRecord) -> None:
        values = list(metric.values(record))
        assert values
        assert all(isinstance(value, Value) for value in values)

    def test_same_record_same_values(self, metric: Metric, record: CaseRecord) -> None:
        assert list(metric.values(record)) == list(metric.values(record))

    def test_records_are_independent(self, metric: Metric, record: CaseRecord) -> None:
        """Values must not depend on what was scored before."""
        first = list(metric.values(record))
        list(metric.values(evolve(record, outcomes={})))
        list(metric.values(judged(record, Verdict.WRONG)))
        assert first == list(metric.values(record))

    def test_failed_answers_are_counted(self, metric: Metric, record: CaseRecord) -> None:
        """As a value or as a missing one with a reason: dropping it would improve the score."""
        failed = Outcome(reply=Failure(error="ServerFailed", message="down"), judgment=Judgment(verdict=Verdict.WRONG))
        seen = _units(metric.values(record))
        for key in record.outcomes:
            gone = evolve(record, outcomes={**record.outcomes, key: failed})
            assert seen <= _units(metric.values(gone))

    @pytest.mark.parametrize("verdict", list(Verdict))
    def test_every_verdict_yields_a_value_or_a_reason(
        self, metric: Metric, record: CaseRecord, verdict: Verdict
    ) -> None:
        """The same units must have a value or a reason, whatever the answers."""
        assert _units(metric.values(record)) == _units(metric.values(judged(record, verdict)))

    def test_order_of_outcomes_does_not_matter(self, metric: Metric, record: CaseRecord) -> None:
        turned = evolve(record, outcomes=dict(reversed(list(record.outcomes.items()))))
        by_name = lambda value: (value.aspect, value.phase, value.style, value.unit, str(value.value))  # noqa: E731
        assert sorted(metric.values(record), key=by_name) == sorted(metric.values(turned), key=by_name)

    def test_values_are_finite(self, metric: Metric, record: CaseRecord) -> None:
        for value in metric.values(record):
            assert value.value is None or math.isfinite(value.value)

    def test_a_missing_value_has_a_reason(self, metric: Metric, record: CaseRecord) -> None:
        nothing = evolve(record, outcomes={})
        skipped = evolve(nothing, skipped="the editor refused the edit")
        for value in (*metric.values(nothing), *metric.values(skipped)):
            assert value.value is not None or value.skipped_because

    def test_each_answer_has_one_label(self, spec: MetricSpec, metric: Metric, record: CaseRecord) -> None:
        labeled = [value for value in metric.values(record) if value.aspect in spec.labels]
        assert all(value.value in (None, 0.0, 1.0) and value.tags["query"] for value in labeled)
        answers = Counter((value.phase, value.style, value.tags["query"]) for value in labeled if value.value == 1)
        assert set(answers.values()) <= {1}

    def test_a_skipped_case_is_counted(self, metric: Metric, record: CaseRecord) -> None:
        values = list(metric.values(evolve(record, outcomes={}, skipped="the editor refused the edit")))
        assert values
        assert all(value.value is None for value in values)


class ModelMetricContract(ComponentContract):
    """Contract of a metric about whole models. Set ``name`` and the fixture ``record`` of an edited model."""

    kind: ClassVar[str] = "metric"

    @pytest.fixture
    def metric(self, spec: MetricSpec, config: Any) -> ModelMetric:
        made = spec.build(config)
        assert isinstance(made, ModelMetric)
        return made

    def test_a_record_has_finite_values(self, metric: ModelMetric, record: ModelRecord) -> None:
        values = list(metric.model_values(record))
        assert any(value.value is not None for value in values)
        assert all(value.value is None or math.isfinite(value.value) for value in values)
        assert values == list(metric.model_values(record))

    def test_a_missing_value_has_a_reason(self, metric: ModelMetric, record: ModelRecord) -> None:
        failure = Failure(error="NoLikelihood", message="it answers in words")
        unscored = evolve(record, replies=dict.fromkeys(record.replies, failure))
        for one in (evolve(record, replies={}), unscored, evolve(record, replies={}, skipped="the edit failed")):
            for value in metric.model_values(one):
                assert value.value is not None or value.skipped_because

    def test_failed_edit_has_no_value(self, metric: ModelMetric, record: ModelRecord) -> None:
        values = list(metric.model_values(evolve(record, edits=0, replies={}, skipped="the edit failed")))
        assert values
        assert all(value.value is None for value in values)

    def test_requests_have_stable_unique_queries(self, spec: MetricSpec, config: Any) -> None:
        requests = spec.requests(config)
        assert len(requests) == len({request.query for request in requests})
        assert requests == spec.requests(config)
        assert all(request.query for request in requests)


def _units(values: Iterable[Value]) -> set[tuple[str, str, str]]:
    return {(value.phase, value.style, value.unit) for value in values}


def judged(record: CaseRecord, verdict: Verdict) -> CaseRecord:
    """Return the same record with one verdict everywhere, as for an upper bound or its opposite."""
    outcomes = {
        key: Outcome(reply=outcome.reply, judgment=evolve(outcome.judgment, verdict=verdict))
        for key, outcome in record.outcomes.items()
    }
    return evolve(record, outcomes=outcomes)
