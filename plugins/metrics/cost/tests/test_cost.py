"""Values computed from the measurements of a run."""

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


RUN = {"forward-calls": 1.5, "tokens": 50.0}


def values(record: ModelRecord) -> dict[str, float | None]:
    return {value.aspect: value.value for value in CostMetric().model_values(record)}


class TestCost(ModelMetricContract):
    name = "cost"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return edited()


def test_time_is_per_edit_and_memory_per_batch() -> None:
    """10 s, 6 calls and 200 tokens for 4 edits; 3 MiB for the batch, and 0.25 MiB while answering."""
    assert values(edited()) == RUN | {"seconds": 2.5, "memory": 3.0, "answer-memory": 0.25}
    on_a_device = edited(memory=Peak(host=0, device=MIB // 2), answering=Peak(host=0, device=MIB))
    assert values(on_a_device) == RUN | {
        "seconds": 2.5, "memory": 0.0, "device-memory": 0.5, "answer-memory": 0.0, "answer-device-memory": 1.0,
    }  # fmt: skip


def test_first_batch_has_its_own_aspects() -> None:
    """It includes statistics that are computed once."""
    assert values(edited(first=True)) == {
        "first-seconds": 2.5, "first-forward-calls": 1.5, "first-tokens": 50.0, "memory": 3.0, "answer-memory": 0.25,
    }  # fmt: skip


def test_unknown_memory_has_a_reason() -> None:
    (missing,) = [value for value in CostMetric().model_values(edited(memory=Peak())) if value.value is None]
    assert (missing.aspect, missing.skipped_because) == ("memory", "this system does not report memory usage")


def test_failed_edit_has_no_cost() -> None:
    failed = edited(skipped="the update is larger than the weight")
    assert set(values(failed).values()) == {None}
    assert {value.skipped_because for value in CostMetric().model_values(failed)} == {
        "the update is larger than the weight"
    }


def test_uncounted_forward_passes_have_a_reason() -> None:
    found = {v.aspect: v.skipped_because for v in CostMetric().model_values(edited(passes=None, answering=Peak()))}
    assert {name: why for name, why in found.items() if why} == {
        "forward-calls": ELSEWHERE, "tokens": ELSEWHERE, "answer-memory": UNMEASURED,
    }  # fmt: skip


def test_editor_without_forward_passes_has_zero() -> None:
    assert values(edited(passes=ForwardCalls()))["forward-calls"] == 0


def test_unedited_model_has_no_cost() -> None:
    assert values(ModelRecord(batch="base", phase="before")) == {}
