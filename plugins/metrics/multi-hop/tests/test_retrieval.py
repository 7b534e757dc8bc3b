"""Retrieval metrics against numbers computed manually."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from ke_core.plugin import EFFICACY, Answer, CaseRecord, Entity, Failure, Gold, Judgment, Outcome, Query, Step, Verdict
from ke_plugin_multi_hop import ke_metrics
from ke_plugin_multi_hop.retrieval import NOT_ALL, Retrieval
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome
from ke_testing.toy import toy_record

R, W, S, U = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE


class TestRetrieval(MetricContract):
    name = "retrieval"

    @pytest.fixture
    def record(self) -> CaseRecord:
        """A record of a method that retrieves."""
        toy = toy_record()
        reply = Answer(text="Italy", steps=(Step(kind="subquestion", text="?", retrieved=("x",), answer="Rome"),))
        return evolve(toy, outcomes={key: evolve(one, reply=reply) for key, one in toy.outcomes.items()})


def named(one: CaseRecord, aspect: str, phase: str = "after"):
    return [value for value in Retrieval().values(one) if (value.aspect, value.phase) == (aspect, phase)]


def with_steps(one: CaseRecord, found: dict[str, list[tuple[str, ...]]]) -> CaseRecord:
    steps = {
        ("after", "direct", name): Outcome(
            reply=Answer(text="x", steps=tuple(Step(kind="subquestion", text="?", retrieved=r) for r in rows)),
            judgment=Judgment(verdict=W),
        )
        for name, rows in found.items()
    }
    return evolve(one, outcomes={**one.outcomes, **steps})


@pytest.mark.parametrize(
    ("found", "value"),
    [
        ({"multi-2": [("a-e1",), ("a-e2",)]}, 1),
        ({"multi-2": [("other",), ("a-e2",), ("a-e1",)]}, 1),
        ({"multi-1": [("a-e1",)], "multi-2": [("a-e2",)]}, 0),
        ({"multi-1": [("a-e1",), ("other",)]}, 0),
        ({"multi-1": [()]}, 0),
    ],
    ids=["all", "any order, with others", "in two questions", "one is missing", "none"],
)
def test_retrieval_requires_every_edit_in_one_wording(found, value, case, record) -> None:
    some = record(case("a", 2, 3), hops=[R, R, R], multi=[W, W, W])
    assert [v.value for v in named(with_steps(some, found), "retrieval")] == [value]


def test_no_values_for_methods_without_retrieval(one_edit) -> None:
    assert named(one_edit, "retrieval") == named(one_edit, "edit-retrieval") == []


def test_failed_question_counts_as_not_retrieved(case, record) -> None:
    some = with_steps(record(case("a", 1, 2), hops=[R, R], multi=[W, W, W]), {"multi-1": [("a-e1",)]})
    failed = {("after", "direct", "hop-1"): outcome(Failure(error="E", message="m"), W)}
    for one in (some, evolve(some, outcomes={**some.outcomes, **failed})):
        assert [v.value for v in named(one, "edit-retrieval")] == [0]
        assert [v.value for v in named(one, "retrieval")] == [1]


def test_edit_retrieval_requires_the_right_edit_first(case, record) -> None:
    some = record(case("a", 2, 2), hops=[R, R], multi=[W, W, W])
    found = with_steps(some, {"hop-1": [("a-e1",)], "hop-2": [("a-e1",), ("a-e2",)]})
    assert [(v.unit, v.value) for v in named(found, "edit-retrieval")] == [("a-e1", 1), ("a-e2", 0)]


def test_edit_retrieval_of_a_probe_of_several_edits_requires_one_of_them_first(case, record) -> None:
    some = record(case("a", 2, 2), hops=[R, R], multi=[W, W, W])
    ids = tuple(edit.id for edit in some.case.edits)
    probes = tuple(evolve(probe, edits=ids) if probe.aspect == EFFICACY else probe for probe in some.case.probes)
    found = with_steps(
        evolve(some, case=evolve(some.case, probes=probes)), {"hop-1": [("a-e2", "a-e1")], "hop-2": [("other", "a-e1")]}
    )
    assert [v.value for v in named(found, "edit-retrieval")] == [1, 0]


def test_control_has_nothing_to_retrieve(one_edit) -> None:
    control = with_steps(evolve(one_edit, edited=False), {"multi-1": [("a-e1",)], "hop-1": [("a-e1",)]})
    assert list(Retrieval().values(control)) == []


def test_right_if_retrieved_includes_only_full_retrieval(case, record) -> None:
    """Three cases: retrieved and right, retrieved and wrong, not retrieved: 1 of 2 (MQuAKE, table 14)."""
    found = {"multi-1": [("a-e1",), ("a-e2",)]}
    right = with_steps(record(case("a", 2, 2), hops=[R, R], multi=[W, R, W]), found)
    wrong = with_steps(record(case("a", 2, 2), hops=[R, R], multi=[W, W, W]), found)
    missed = with_steps(record(case("a", 2, 2), hops=[R, R], multi=[W, R, W]), {"multi-1": [("a-e1",)]})
    values = [value for one in (right, wrong, missed) for value in named(one, "right-if-retrieved")]
    assert [(value.value, value.skipped_because) for value in values] == [(1, ""), (0, ""), (None, NOT_ALL)]


@pytest.mark.parametrize("aspect", ["complex", "reasoning"])
def test_questions_of_other_benchmarks_count(aspect, case, record) -> None:
    some = with_steps(record(case("a", 1, 2), hops=[R, R], multi=[W, W, W]), {"multi-1": [("a-e1",)]})
    probes = (*some.case.probes[:-1], evolve(some.case.probes[-1], aspect=aspect))
    assert [v.value for v in named(evolve(some, case=evolve(some.case, probes=probes)), "retrieval")] == [1]


def test_skipped_case_has_its_reason(case) -> None:
    skipped = CaseRecord(case=case("b", 2, 2), batch="0", skipped="the subject does not occur")
    values = list(Retrieval().values(skipped))
    assert {(value.value, value.skipped_because) for value in values} == {(None, "the subject does not occur")}


def test_columns_match_aspects(one_edit, stepped) -> None:
    _multi_hop, spec = ke_metrics()
    looked_up = with_steps(one_edit, {"multi-1": [("a-e1",)], "hop-1": [("a-e1",)]})
    aspects = {value.aspect for one in (looked_up, stepped(hop("Rome", "a-e1"))) for value in Retrieval().values(one)}
    assert set(spec.columns) == aspects
    assert len(set(spec.columns.values())) == len(aspects)


@pytest.fixture
def stepped(case) -> Callable[..., CaseRecord]:
    """Make a case with two hops, the first edited, and one wording that is answered with the given steps."""
    hops = (
        Query(id="h1", texts=("where?",), gold=Gold(entities=(Entity(label="Rome", aliases=("Roma",)),)), edit="a-e1"),
        Query(id="h2", texts=("who?",), gold=gold("W. G. Sebald")),
    )
    asked = Query(id="multi-1", texts=("who where?",), gold=gold("x"), hops=hops)
    plain = case("a", 1, 2, questions=1)
    made = evolve(plain, probes=(*plain.probes[:-1], evolve(plain.probes[-1], queries=(asked,))))

    def answered(*steps: Step) -> CaseRecord:
        outcomes = {("after", "own", "multi-1"): outcome(Answer(text="x", steps=steps), W)}
        return CaseRecord(case=made, batch="0", outcomes=outcomes)

    return answered


def hop(answer: str, *retrieved: str) -> Step:
    return Step(kind="subquestion", text="?", retrieved=retrieved, answer=answer)


@pytest.fixture
def per_hop(stepped) -> Callable[..., dict[str, list[float]]]:
    """Return the values of a question that is answered with these steps, hop by hop."""

    def counted(*steps: Step) -> dict[str, list[float]]:
        one = stepped(*steps)
        return {aspect: [v.value for v in named(one, aspect)] for aspect in ("hops-answered", "used-if-retrieved")}

    return counted


@pytest.mark.parametrize(
    ("steps", "answered", "weighed"),
    [
        ((hop("Rome", "a-e1"), hop("W. G. Sebald", "other")), 1.0, [1]),
        ((hop("roma.", "a-e1"), hop("", "other")), 0.5, [1]),
        ((hop("Paris", "a-e1"), hop("w. g.  sebald.", "other")), 0.5, [0]),
        ((hop("Rome", "other", "a-e1"),), 0.5, [None]),  # so that two runs have the same hops to compare
        ((hop("", "a-e1"),), 0.0, [0]),
        ((hop("Paris", "a-e1"), hop("Rome", "a-e1")), 0.5, [1]),
    ],
)
def test_hops_are_compared_with_the_answers_of_steps(steps, answered, weighed, per_hop) -> None:
    assert per_hop(*steps) == {"hops-answered": [answered], "used-if-retrieved": weighed}


@pytest.mark.parametrize(
    ("said", "require", "arrived"),
    [
        ("French, German", "all", 1),
        ("german and french.", "all", 1),
        ("French", "all", 0),
        ("Germanic, French", "all", 0),
        ("French", "any", 1),
        ("French, German", "any", 0),
    ],
)
def test_hop_with_several_answers_requires_all(stepped, said, require, arrived) -> None:
    one = stepped(hop(said, "a-e1"))
    (asked,) = one.case.probes[-1].queries
    gold = Gold(entities=(Entity(label="French"), Entity(label="German")), require=require)
    asked = evolve(asked, hops=(evolve(asked.hops[0], gold=gold),))
    case = evolve(one.case, probes=(*one.case.probes[:-1], evolve(one.case.probes[-1], queries=(asked,))))
    assert [v.value for v in named(evolve(one, case=case), "used-if-retrieved")] == [arrived]


def test_no_hop_values_without_sub_questions(stepped, per_hop) -> None:
    assert per_hop(Step(kind="retrieved", text="?", retrieved=("a-e1",))) == {
        "hops-answered": [],
        "used-if-retrieved": [],
    }
    control = evolve(stepped(hop("Rome", "a-e1")), edited=False)
    assert named(control, "hops-answered") == named(control, "used-if-retrieved") == []


def test_failed_question_reaches_no_hop(stepped) -> None:
    two = stepped(hop("Rome", "a-e1"))
    probe = two.case.probes[-1]
    other = evolve(probe.queries[0], id="multi-2")
    both = evolve(two.case, probes=(*two.case.probes[:-1], evolve(probe, queries=(*probe.queries, other))))
    failed = {("after", "own", "multi-2"): outcome(Failure(error="E", message="m"), W)}
    record_ = evolve(two, case=both, outcomes={**two.outcomes, **failed})
    assert [value.value for value in named(record_, "hops-answered")] == [0.5, 0.0]


@pytest.mark.parametrize(
    ("said", "shares"),
    [
        ("Ada Reed in Moscow, Grace Hopper in New York", (1, 1)),
        ("Ada Reed was born in Moscow. Grace Hopper in New York.", (1, 1)),
        ("Ada Reed in New York, Grace Hopper in Moscow", (0, 0)),
        ("Ada Reed in Moscow, Grace Hopper in Oslo", (1, 0)),
        ("Moscow", (1, 0)),
        ("Moscow, New York", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_one_step_may_answer_several_hops_of_one_relation(said, shares, case, record) -> None:
    """As in CompKE's demonstrations: "Where was each of Ada Reed, Grace Hopper born?"."""
    some = record(case("a", 2, 2), hops=[R, R], multi=[R, R, R])
    (probe,) = (one for one in some.case.probes if one.aspect == "multi-hop")
    hops = tuple(
        Query(id=who, texts=(f"Where was {who} born?",), gold=gold(where), relation="born in", edit=edit)
        for who, where, edit in (("Ada Reed", "Moscow", "a-e1"), ("Grace Hopper", "New York", None))
    )
    asked_ = evolve(probe, queries=tuple(evolve(query, hops=hops) for query in probe.queries[:1]))
    probes = tuple(asked_ if one is probe else one for one in some.case.probes)
    step = Step(kind="subquestion", text="Where was each of them born?", answer=said, retrieved=("a-e1",))
    reply = outcome(Answer(text="x", steps=(step,)), R)
    one = evolve(
        some,
        case=evolve(some.case, probes=probes),
        outcomes={**some.outcomes, ("after", "direct", asked_.queries[0].id): reply},
    )
    assert [value.value for value in named(one, "hops-answered")] == [sum(shares) / 2]
    assert [value.value for value in named(one, "used-if-retrieved")] == [shares[0]]
