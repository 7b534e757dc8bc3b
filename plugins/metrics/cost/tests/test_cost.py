"""What the run measured, as numbers; and the contract."""

from __future__ import annotations

import pytest

from ke_core.plugin import ForwardCalls, ModelRecord, Peak
from ke_plugin_cost.metric import ELSEWHERE, UNMEASURED, CostMetric
from ke_testing.metric import ModelMetricContract

MIB = 2**20


def edited(**changes) -> ModelRecord:
    return ModelRecord(
        **{
            "batch": "batch-2",
            "edits": 4,
            "seconds": 10.0,
            "memory": Peak(host=3 * MIB, device=None),
            "passes": ForwardCalls(passes=6, tokens=200),
            "answering": Peak(host=MIB // 4),
            **changes,
        }
    )


RUN = {"passes": 1.5, "tokens": 50.0}


def values(record: ModelRecord) -> dict[str, float | None]:
    return {value.aspect: value.value for value in CostMetric().model_values(record)}


class TestCost(ModelMetricContract):
    name = "cost"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return edited()


def test_time_is_per_edit_and_memory_per_batch() -> None:
    """10 s, 6 passes and 200 tokens for 4 edits; 3 MiB for all of them together, and a quarter while answering."""
    assert values(edited()) == RUN | {"seconds": 2.5, "memory": 3.0, "answer-memory": 0.25}
    on_a_device = edited(memory=Peak(host=0, device=MIB // 2), answering=Peak(host=0, device=MIB))
    assert values(on_a_device) == RUN | {
        "seconds": 2.5, "memory": 0.0, "device-memory": 0.5, "answer-memory": 0.0, "answer-device-memory": 1.0,
    }  # fmt: skip


def test_the_first_batch_of_a_process_is_counted_apart() -> None:
    """Statistics that are computed once would otherwise be in the time of every edit."""
    assert values(edited(first=True)) == {
        "first-seconds": 2.5, "first-passes": 1.5, "first-tokens": 50.0, "memory": 3.0, "answer-memory": 0.25,
    }  # fmt: skip


def test_v9_where_nobody_could_say_the_value_is_missing_with_the_reason() -> None:
    (missing,) = [value for value in CostMetric().model_values(edited(memory=Peak())) if value.value is None]
    assert (missing.aspect, missing.skipped_because) == ("memory", "this system does not report memory usage")


def test_v9_a_failed_edit_has_no_time() -> None:
    failed = edited(skipped="the update is larger than the weight")
    assert set(values(failed).values()) == {None}
    assert {value.skipped_because for value in CostMetric().model_values(failed)} == {
        "the update is larger than the weight"
    }


def test_v9_a_model_that_runs_elsewhere_and_an_older_record_have_no_number() -> None:
    found = {v.aspect: v.skipped_because for v in CostMetric().model_values(edited(passes=None, answering=Peak()))}
    assert {name: why for name, why in found.items() if why} == {
        "passes": ELSEWHERE, "tokens": ELSEWHERE, "answer-memory": UNMEASURED,
    }  # fmt: skip


def test_an_editor_that_runs_nothing_has_zero_and_not_nothing() -> None:
    assert values(edited(passes=ForwardCalls()))["passes"] == 0


def test_the_unedited_model_costs_nothing() -> None:
    assert values(ModelRecord(batch="base", phase="before")) == {}
