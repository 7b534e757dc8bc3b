"""Steps counted manually, on the forms of question of CompKE's figure 10."""

from __future__ import annotations

import pytest

from ke_core.plugin import (
    EDITS_WITHHELD,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Failure,
    Gold,
    Judgment,
    Outcome,
    Probe,
    Query,
    Reply,
    Step,
    Verdict,
)
from ke_plugin_omitted_steps import ke_metrics
from ke_plugin_omitted_steps.metric import NO_STEPS, OmittedSteps

GOLD = Gold(entities=(Entity(label="x"),))


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
    outcomes = {("after", "own", "q"): Outcome(reply=reply, judgment=Judgment(verdict=Verdict.WRONG))}
    return CaseRecord(case=case, batch="0", outcomes=outcomes, **rest)


def steps(*texts: str) -> Answer:
    asked = tuple(Step(kind="subquestion", text=text) for text in texts)
    return Answer(text="x", steps=(*asked, Step(kind="final", text="x")))


def numbers(one: CaseRecord) -> list[float | None]:
    return [value.value for value in OmittedSteps().values(one)]


def test_an_intersection_that_nobody_asks_for_is_one_of_three_steps() -> None:
    """Schools of both of two people: two facts and the intersection. MeLLo's prompt asks for the two facts."""
    two = steps("Which schools did Ann attend?", "Which schools did Ben attend?")
    assert numbers(record(two, tags={"steps": "3-step"})) == [3, 2, pytest.approx(1 / 3), 1, 0]


def test_every_step_asked_for_leaves_nothing_out() -> None:
    three = steps("Which schools did Ann attend?", "Which did Ben attend?", "Which are in both lists?")
    assert numbers(record(three, tags={"steps": "3-step"})) == [3, 3, 0, 0, 0]


def test_the_same_sub_question_again_is_no_further_step() -> None:
    again = steps("Where is the Tower?", "where is the tower", "Where is the Tower?")
    assert numbers(record(again, hops=3)) == [3, 1, pytest.approx(2 / 3), 1, 0]


def test_more_than_needed_is_seen_too() -> None:
    assert numbers(record(steps("a", "b", "c"))) == [2, 3, 0, 0, 1]


def test_a_method_that_stops_before_its_first_sub_question_leaves_all_out() -> None:
    ended = Answer(text="", steps=(Step(kind="unparsed", text="?"),), outcome="unparsed")
    assert numbers(record(ended)) == [2, 0, 1, 1, 0]


def test_v9_what_has_no_steps_is_left_out_with_its_reason() -> None:
    gone = Failure(error="ServerGone", message="gone")
    for one, why in (
        (record(Answer(text="x")), NO_STEPS),
        (record(gone), "there is no text answer: ServerGone"),
        (record(steps("a"), edited=False), EDITS_WITHHELD),
        (record(steps("a"), skipped="refused"), "refused"),
    ):
        values = list(OmittedSteps().values(one))
        assert {(value.value, value.skipped_because) for value in values} == {(None, why)}
        assert len(values) == 5


def test_a_question_of_one_fact_leaves_nothing_out() -> None:
    assert numbers(record(steps("a"), hops=1)) == numbers(record(steps("a"), hops=0)) == []


def test_every_heading_is_of_an_aspect_that_exists() -> None:
    (spec,) = ke_metrics()
    assert set(spec.columns) == {value.aspect for value in OmittedSteps().values(record(steps("a")))}


def test_a_logical_step_that_is_spelled_out_is_a_step() -> None:
    """As CompKE's worked examples have it, behind two sub-questions."""
    spelled = (*steps("Which schools did Ann attend?", "Which did Ben?").steps, Step(kind="operation", text="in both"))
    assert numbers(record(Answer(text="x", steps=spelled), tags={"steps": "3-step"})) == [3, 3, 0, 0, 0]
