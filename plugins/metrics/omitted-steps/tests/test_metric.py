"""Manually counted steps of questions as in CompKE's figure 10."""

from __future__ import annotations

import pytest

from ke_core.plugin import EDITS_WITHHELD, Answer, Case, CaseRecord, Edit, Failure, Probe, Query, Reply, Step, Verdict
from ke_plugin_omitted_steps import ke_metrics
from ke_plugin_omitted_steps.metric import NO_STEPS, OmittedSteps
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

GOLD = gold("x")


class TestOmittedSteps(MetricContract):
    name = "omitted-steps"


def record(reply: Reply, *, hops: int = 2, tags: dict[str, str] | None = None, **rest) -> CaseRecord:
    asked = Query(
        id="q", texts=("?",), gold=GOLD, hops=tuple(Query(id=f"h{n}", texts=("?",), gold=GOLD) for n in range(hops))
    )
    case = Case(
        id="1",
        edits=(Edit(id="e", statement="s"),),
        probes=(Probe(id="complex", aspect="complex", queries=(asked,), phase="both"),),
        tags=tags or {},
    )
    outcomes = {("after", "own", "q"): outcome(reply, Verdict.WRONG)}
    return CaseRecord(case=case, batch="0", outcomes=outcomes, **rest)


def steps(*texts: str) -> Answer:
    asked = tuple(Step(kind="subquestion", text=text) for text in texts)
    return Answer(text="x", steps=(*asked, Step(kind="final", text="x")))


def numbers(one: CaseRecord) -> list[float | None]:
    return [value.value for value in OmittedSteps().values(one)]


def test_missing_intersection_is_an_omitted_step() -> None:
    """The schools of two people: two facts and their intersection. MeLLo's prompt asks for the two facts only."""
    two = steps("Which schools did Ann attend?", "Which schools did Ben attend?")
    assert numbers(record(two, tags={"steps": "3-step"})) == [3, 2, pytest.approx(1 / 3), 1, 0]


def test_no_omitted_step_if_all_are_asked() -> None:
    three = steps("Which schools did Ann attend?", "Which did Ben attend?", "Which are in both lists?")
    assert numbers(record(three, tags={"steps": "3-step"})) == [3, 3, 0, 0, 0]


def test_repeated_sub_question_counts_once() -> None:
    again = steps("Where is the Tower?", "where is the tower", "Where is the Tower?")
    assert numbers(record(again, hops=3)) == [3, 1, pytest.approx(2 / 3), 1, 0]


def test_too_many_steps() -> None:
    assert numbers(record(steps("a", "b", "c"))) == [2, 3, 0, 0, 1]


def test_answer_without_sub_question_omits_all_steps() -> None:
    ended = Answer(text="", steps=(Step(kind="unparsed", text="?"),), outcome="unparsed")
    assert numbers(record(ended)) == [2, 0, 1, 1, 0]


def test_missing_steps_have_a_reason() -> None:
    gone = Failure(error="ServerGone", message="gone")
    for one, why in (
        (record(Answer(text="x")), NO_STEPS),
        (record(Answer(text="x", steps=(Step(kind="retrieved", text="a fact"),))), NO_STEPS),
        (record(gone), "there is no text answer: ServerGone"),
        (record(steps("a"), edited=False), EDITS_WITHHELD),
        (record(steps("a"), skipped="refused"), "refused"),
    ):
        values = list(OmittedSteps().values(one))
        assert {(value.value, value.skipped_because) for value in values} == {(None, why)}
        assert len(values) == 5


def test_single_fact_question_has_no_values() -> None:
    assert numbers(record(steps("a"), hops=1)) == numbers(record(steps("a"), hops=0)) == []


def test_columns_match_aspects() -> None:
    (spec,) = ke_metrics()
    assert set(spec.columns) == {value.aspect for value in OmittedSteps().values(record(steps("a")))}


def test_stated_logical_step_counts() -> None:
    """As in CompKE's worked examples, after two sub-questions."""
    spelled = (*steps("Which schools did Ann attend?", "Which did Ben?").steps, Step(kind="operation", text="in both"))
    assert numbers(record(Answer(text="x", steps=spelled), tags={"steps": "3-step"})) == [3, 3, 0, 0, 0]
