"""What the run measured, as numbers; and the contract."""

from __future__ import annotations

import pytest

from ke_core.plugin import ModelRecord, Peak
from ke_core.testing.metric import ModelMetricContract
from ke_plugin_cost.metric import Cost

MIB = 2**20


def edited(**changes) -> ModelRecord:
    return ModelRecord(
        **{"batch": "batch-2", "edits": 4, "seconds": 10.0, "memory": Peak(host=3 * MIB, device=None), **changes}
    )


def values(record: ModelRecord) -> dict[str, float | None]:
    return {value.aspect: value.value for value in Cost().model_values(record)}


class TestCost(ModelMetricContract):
    name = "cost"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return edited()


def test_time_is_per_edit_and_memory_per_batch() -> None:
    assert values(edited()) == {"seconds": 2.5, "memory": 3.0}
    assert values(edited(memory=Peak(host=0, device=MIB // 2))) == {"seconds": 2.5, "memory": 0.0, "device-memory": 0.5}


def test_the_first_batch_of_a_process_is_counted_apart() -> None:
    """Statistics that are computed once would otherwise be in the time of every edit."""
    assert values(edited(first=True)) == {"first-seconds": 2.5, "memory": 3.0}


def test_v9_where_nobody_could_say_the_value_is_missing_with_the_reason() -> None:
    (missing,) = [value for value in Cost().model_values(edited(memory=Peak())) if value.value is None]
    assert (missing.aspect, missing.skipped_because) == (
        "memory",
        "this system does not say how much memory is in use",
    )


def test_v9_a_failed_edit_has_no_time() -> None:
    failed = edited(skipped="the update is larger than the weight")
    assert values(failed) == {"seconds": None, "memory": None}


def test_the_unedited_model_costs_nothing() -> None:
    assert values(ModelRecord(batch="base", phase="before")) == {}
