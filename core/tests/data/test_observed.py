"""Helpers for metrics: missing values have the reason of what is missing."""

import pytest

from ke_core.plugin import (
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    CaseRecord,
    Failure,
    NoValue,
    Scored,
    Verdict,
    log_probabilities,
    measured,
    outcome_of,
    verdict_of,
)
from ke_core.spec.component import NoOptions
from ke_core.spec.specs import MetricSpec
from ke_testing.records import outcome, reasoning_record

RIGHT, UNSURE = outcome("x", Verdict.RIGHT), outcome("x", Verdict.UNSURE)
RECORD = CaseRecord(
    case=reasoning_record().case,
    batch="0",
    outcomes={("after", "direct", "right"): RIGHT, ("after", "direct", "unsure"): UNSURE},
)


def test_value_or_reason() -> None:
    def of(query: str) -> bool:
        return verdict_of(outcome_of(RECORD, "after", "direct", query)) is Verdict.RIGHT

    values = [measured("a", lambda query=query: of(query)) for query in ("right", "unsure", "missing")]
    assert [(value.value, value.skipped_because) for value in values] == [
        (1.0, ""), (None, JUDGE_UNSURE), (None, NOT_ON_RECORD),
    ]  # fmt: skip
    assert measured("a", lambda: 1 / 0, why="skipped", style="cot").skipped_because == "skipped"
    assert measured("a", lambda: 2.0**5000).skipped_because == "too large for a number"


@pytest.mark.parametrize(("reply", "reason"), [
    (Failure(error="NoLikelihood", message="only text"), "only text"),
    (Failure(error="ServerGone", message=""), "ServerGone"),
    (RIGHT.reply, "the answer is a text, not log-probabilities"),
])  # fmt: skip
def test_reply_without_log_probabilities_gives_the_reason(reply, reason) -> None:
    with pytest.raises(NoValue, match=reason):
        log_probabilities(reply)


def test_log_probabilities_are_returned() -> None:
    scored = Scored(logprobs=(-1.0,), tokens=(1,))
    assert log_probabilities(scored) is scored


def test_component_without_options_needs_no_config() -> None:
    assert MetricSpec(name="m", summary="s", build=lambda _config: None).config is NoOptions
