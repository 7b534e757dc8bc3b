"""The metric against numbers computed manually."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import ClassVar

import pytest

from ke_core.app import aggregate
from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    Case,
    CaseRecord,
    Edit,
    Failure,
    Finding,
    Outcome,
    Phase,
    Probe,
    Query,
    Verdict,
)
from ke_plugin_set_answers import SetAnswersConfig, ke_metrics
from ke_plugin_set_answers.metric import SetAnswers
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome


class TestSetAnswers(MetricContract):
    name = "set-answers"


class TestEmptyCountsAsOne(MetricContract):
    name = "set-answers"
    options: ClassVar[dict[str, str]] = {"empty": "one"}


def case(before: set[str], after: set[str], wordings: int = 1, name: str = "c") -> Case:
    pre_edit = None if before == after else gold(*sorted(before))
    asked = [
        Query(id=f"complex-{n}", texts=(f"{n}?",), gold=gold(*sorted(after)), pre_edit=pre_edit)
        for n in range(1, wordings + 1)
    ]
    fact = Query(id="fact", texts=("?",), gold=gold("x"), pre_edit=gold("y"), edit="e")
    return Case(
        id=name,
        edits=(Edit(id="e", statement="s"),),
        probes=(
            Probe(id="efficacy-1", aspect=EFFICACY, queries=(fact,), edits=("e",)),
            Probe(id="complex", aspect="complex", queries=tuple(asked), phase="both", edits=("e",)),
        ),
    )


def listed_outcome(query: Query, listed: set[str]) -> Outcome:
    """Return the findings of the judge ``set``."""
    right = {entity.key for entity in query.gold.entities}
    old = {entity.key for entity in query.pre_edit.entities} if query.pre_edit else set()
    found = tuple(
        Finding(item=name, label="gold", entity=name)
        if name in right
        else Finding(item=name, label="pre-edit", entity=name)
        if name in old
        else Finding(item=name, label="extra")
        for name in sorted(listed)
    )
    verdict = Verdict.RIGHT if listed == right else Verdict.WRONG
    return outcome("", verdict, found)


def record(made: Case, *answers: set[str], phase: Phase = "after", edited: bool = True) -> CaseRecord:
    asked = made.probes[1].queries
    found = {
        (phase, "direct", query.id): listed_outcome(query, listed) for query, listed in zip(asked, answers, strict=True)
    }
    return CaseRecord(case=made, batch=made.id, edited=edited, outcomes=found)


def observed(*records: CaseRecord, phase: Phase = "after", **options: object) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = defaultdict(list)
    for one in records:
        for value in SetAnswers(config=SetAnswersConfig(**options)).values(one):  # type: ignore[arg-type]
            if value.phase == phase and value.aspect != "edit-wise":
                found[value.aspect].append(value.value)
    return found


CHRISTINE = case({"LA"}, {"SF", "LA"})


@pytest.mark.parametrize(
    ("listed", "aug", "ret", "precision"),
    [({"SF"}, 1, 0, 1), ({"LA"}, 0, 1, 1), ({"SF", "LA"}, 1, 1, 1), ({"SF", "LA", "NY"}, 1, 1, 2 / 3)],
)
def test_example_4_and_table_1_of_compke(listed: set[str], aug: float, ret: float, precision: float) -> None:
    """Where were both films shot? The edit changes Christine from {LA} to {SF, LA, NY}; Pacific Heights has {SF, LA}.

    The intersection changes from {LA} to {SF, LA}: SF is added (Aug), LA is retained (Ret). Repeating the injected
    list scores 1 in both; only precision decreases.
    """
    found = observed(record(CHRISTINE, listed))
    assert (found["aug"], found["ret"], found["precision"]) == ([aug], [ret], [precision])
    assert found["exact"] == [listed == {"SF", "LA"}]
    assert (found["empty-aug"], found["empty-ret"], found["deletion"]) == ([0], [0], [None])


def test_figure_8_of_compke() -> None:
    """The injected set contains the new school and a wrong one."""
    found = observed(record(case({"Stanford"}, {"Wharton"}), {"Wharton", "Cambridge"}))
    assert (found["aug"], found["ret"], found["precision"], found["exact"]) == ([1], [None], [0.5], [0])
    assert found["empty-ret"] == [1]
    assert found["deletion"] == [1]


def test_pure_deletion_has_no_aug() -> None:
    found = observed(record(case({"a", "b"}, {"a"}), {"a", "b"}))
    assert (found["aug"], found["ret"], found["deletion"], found["empty-aug"]) == ([None], [1], [0], [1])


def test_acc_is_the_mean_of_the_two_means() -> None:
    one = record(case({"x", "k"}, {"x", "n"}, name="1"), {"n"})
    two = record(case({"x", "g"}, {"x"}, name="2"), {"x"})
    found = observed(one, two)
    assert (found["aug"], found["ret"]) == ([1, None], [0, 1])
    (spec,) = ke_metrics()
    scores = aggregate(SetAnswers(config=SetAnswersConfig()), spec, [one, two], seed=0)
    values = {s.aspect: s.value for s in scores if s.phase == "after" and s.style == "direct" and not s.tags}
    assert (values["aug"], values["ret"], values["acc"]) == (1.0, 0.5, 0.75)
    assert values["acc-question"] == mean([0.5, 1])


@pytest.mark.parametrize(("empty", "aug"), [("exclude", None), ("one", 1.0), ("zero", 0.0)])
def test_option_empty(empty: str, aug: float | None) -> None:
    found = observed(record(case({"a", "b"}, {"a"}), {"a"}), empty=empty)
    assert (found["aug"], found["empty-aug"]) == ([aug], [1])


def test_unchanged_answer_is_retained() -> None:
    found = observed(record(case({"a"}, {"a"}), {"a"}))
    assert (found["aug"], found["ret"]) == ([None], [1])


def test_all_wordings_and_the_best_one() -> None:
    found = observed(record(case({"a"}, {"a", "b"}, wordings=3), {"a"}, {"b"}, set()))
    assert (found["aug"], found["ret"]) == ([0, 1, 0], [1, 0, 0])
    assert (found["any-aug"], found["any-ret"], found["any-exact"]) == ([1], [1], [0])
    assert found["precision"] == [1, 1, None]


def test_unedited_model_is_compared_with_both_answers() -> None:
    made = case({"a"}, {"b"})
    query = made.probes[1].queries[0]
    turned = Query(id=query.id, texts=query.texts, gold=gold("a"), pre_edit=gold("b"))
    asked = CaseRecord(case=made, batch="-", outcomes={("before", "direct", query.id): listed_outcome(turned, {"a"})})
    found = observed(asked, phase="before")
    assert (found["pre-edit-recall"], found["pre-edit-exact"]) == ([1], [1])
    assert (found["aug"], found["ret"], found["exact"], found["deletion"]) == ([0], [None], [0], [0])


def test_unedited_model_scores_like_an_editor_without_effect() -> None:
    after = record(case({"a", "k"}, {"b", "k"}), {"a", "k"})
    (key,) = after.outcomes
    unedited = CaseRecord(case=after.case, batch="-", outcomes={("before", *key[1:]): after.outcomes[key]})
    found, same = observed(unedited, phase="before"), observed(after)
    assert {aspect: found[aspect] for aspect in ("aug", "ret", "exact", "precision", "deletion", "any-aug")} == {
        aspect: same[aspect] for aspect in ("aug", "ret", "exact", "precision", "deletion", "any-aug")
    }
    assert (found["aug"], found["ret"], found["pre-edit-recall"]) == ([0], [1], [1])


def test_control_expects_the_old_answer() -> None:
    found = observed(record(case({"a"}, {"b"}), {"a"}, edited=False))
    assert (found["aug"], found["ret"], found["exact"]) == ([None], [1], [1])


def test_failure_is_wrong() -> None:
    made = case({"a", "g"}, {"a", "b"})
    found = (Finding(item="ServerFailed", label="failure"),)
    failed = outcome(Failure(error="ServerFailed", message="-"), Verdict.WRONG, found)
    values = observed(CaseRecord(case=made, batch="-", outcomes={("after", "direct", "complex-1"): failed}))
    assert (values["aug"], values["ret"], values["precision"], values["deletion"]) == ([0], [0], [None], [None])


def test_unsure_verdict_gives_missing_value() -> None:
    made = case({"a"}, {"b"})
    unsure = outcome("", Verdict.UNSURE)
    values = SetAnswers(config=SetAnswersConfig()).values(
        CaseRecord(case=made, batch="-", outcomes={("after", "direct", "complex-1"): unsure})
    )
    assert {value.skipped_because for value in values if value.aspect == "aug" and value.phase == "after"} == {
        "the judge could not decide"
    }


def test_edit_wise_counts_each_edit() -> None:
    made = case({"a"}, {"b"})
    fact = made.probes[0].queries[0]
    asked = CaseRecord(case=made, batch="-", outcomes={("after", "direct", "fact"): listed_outcome(fact, {"x"})})
    (value,) = (v for v in SetAnswers(config=SetAnswersConfig()).values(asked) if v.aspect == "edit-wise")
    assert (value.value, value.unit) == (1, "e")


def test_control_has_no_edit_wise_score() -> None:
    made = case({"a"}, {"b"})
    said = {("after", "direct", "fact"): listed_outcome(made.probes[0].queries[0], {"x"})}
    asked = CaseRecord(case=made, batch="-", edited=False, outcomes=said)
    (value,) = (v for v in SetAnswers(config=SetAnswersConfig()).values(asked) if v.aspect == "edit-wise")
    assert (value.value, value.skipped_because) == (None, EDITS_WITHHELD)
