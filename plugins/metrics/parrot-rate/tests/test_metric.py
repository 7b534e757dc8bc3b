"""The rate on printed examples of CompKE and on multi-hop questions, computed manually."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Fact,
    Failure,
    Probe,
    Query,
    Relation,
    Verdict,
)
from ke_plugin_parrot_rate.metric import NONE, ParrotRate
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome


class TestParrotRate(MetricContract):
    name = "parrot-rate"


def edit(subject: str, old: tuple[str, ...], new: tuple[str, ...]) -> Edit:
    def fact(names: tuple[str, ...]) -> Fact:
        return Fact(subject=Entity(label=subject), relation=Relation(label="r"), objects=gold(*names).entities)

    return Edit(id=subject, statement="s", before=fact(old) if old else None, after=fact(new))


def case(change: Edit, right: tuple[str, ...], *, text: str = "Which?", pre_edit: tuple[str, ...] = ("Y",)) -> Case:
    asked = Query(id="q", texts=(text,), gold=gold(*right), pre_edit=gold(*pre_edit))
    return Case(
        id="1",
        edits=(change,),
        probes=(Probe(id="complex", aspect="complex", queries=(asked,), phase="both", edits=(change.id,)),),
    )


def rate(one: Case, text: str, phase: str = "after", **rest) -> float | str | None:
    reply = rest.pop("reply", Answer(text=text))
    outcomes = {(phase, "direct", "q"): outcome(reply, Verdict.WRONG)}
    values = ParrotRate().values(CaseRecord(case=one, batch="0", outcomes=outcomes, **rest))
    (value,) = [value for value in values if value.phase == phase]
    return value.skipped_because or value.value


SCHOOLS = case(
    edit("Ann", ("Stanford University",), ("The Wharton School", "University of Cambridge")),
    ("The Wharton School",),
    pre_edit=("Stanford University",),
)


def test_injected_set_instead_of_the_intersection() -> None:
    """CompKE's figure 8: Aug counts this answer as right."""
    assert rate(SCHOOLS, "The Wharton School, University of Cambridge") == 1
    assert rate(SCHOOLS, "The Wharton School") == 0
    assert rate(SCHOOLS, "Stanford University") == 0


def test_two_of_three_answers() -> None:
    multi_hop = case(edit("Tower", ("Paris",), ("Rome",)), ("Italy",), pre_edit=("France",))
    found = [rate(multi_hop, text) for text in ("Rome", "the city of rome.", "Italy")]
    assert found == [1, 1, 0]


def test_object_matches_whole_words_only() -> None:
    multi_hop = case(edit("Tower", ("Paris",), ("Guinea",)), ("Italy",))
    assert rate(multi_hop, "Guinea-Bissau") == 0


def test_right_object_is_no_parroting() -> None:
    assert rate(case(edit("Tower", ("Paris",), ("Rome",)), ("Rome",)), "Rome") == NONE


def test_object_in_the_question_is_no_parroting() -> None:
    asked = case(edit("Tower", ("Paris",), ("Rome",)), ("Italy",), text="Which country is Rome in?")
    assert rate(asked, "Rome") == NONE


def test_retained_object_is_not_injected() -> None:
    kept = case(edit("Film", ("Los Angeles",), ("Los Angeles", "New York")), ("Boston",))
    assert rate(kept, "Los Angeles") == 0
    assert rate(kept, "New York") == 1


def test_every_object_is_injected_without_an_old_fact() -> None:
    assert rate(case(edit("Tower", (), ("Rome",)), ("Italy",)), "Rome") == 1


def test_rate_before_editing() -> None:
    assert rate(SCHOOLS, "University of Cambridge", "before") == 1
    assert rate(SCHOOLS, "The Wharton School", "before") == 0, "it is right after the edit, so it does not count"


def test_missing_answer_is_excluded_with_its_reason() -> None:
    assert rate(SCHOOLS, "x", edited=False) == EDITS_WITHHELD
    assert rate(SCHOOLS, "x", skipped="refused") == "refused"
    gone = Failure(error="ServerGone", message="gone")
    assert rate(SCHOOLS, "", reply=gone) == "there is no text answer: ServerGone"


@pytest.mark.parametrize("label", ["!", "…"])
def test_name_without_letters_never_matches(label) -> None:
    odd = edit("Tower", ("Paris",), ("Rome",))
    assert odd.after is not None
    odd = evolve(odd, after=evolve(odd.after, objects=gold(label).entities))
    assert rate(case(odd, ("Italy",)), "anything") == NONE


def test_unit_of_an_edits_own_question_is_the_edit() -> None:
    own = case(edit("Tower", ("Paris",), ("Rome",)), ("Rome",))
    (probe,) = own.probes
    some = evolve(own, probes=(evolve(probe, aspect=EFFICACY, phase="after"),))
    assert [value.unit for value in ParrotRate().values(CaseRecord(case=some, batch="0"))] == ["Tower"]
