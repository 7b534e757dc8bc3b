"""The metric against numbers computed manually; the numbered checks are those of CompKE's protocol page."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import pytest

from ke_core.app import aggregate
from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Failure,
    Finding,
    Gold,
    Judgment,
    Outcome,
    Phase,
    Probe,
    Query,
    Reply,
    Verdict,
)
from ke_plugin_set_answers import SetAnswersConfig, ke_metrics
from ke_plugin_set_answers.metric import SetAnswers

TABLE = """
12.61/17.91/15.26 4.80/4.40/4.60 0.82/1.59/1.21 20.99/23.86/22.43 7.80/6.73/7.27 1.52/3.75/2.64 5.40/2.25/3.83
3.06/3.39/3.23 0.69/2.00/1.35 4.26/1.85/3.06 2.85/1.38/2.12 0.71/0.62/0.67 22.82/25.09/23.96 7.50/7.98/7.74
0.73/0.98/0.86 29.40/27.72/28.56 24.11/24.80/24.46 1.88/2.05/1.97 17.78/13.38/15.58 10.35/17.32/13.84
8.98/12.59/10.79 15.59/11.41/13.50 8.17/13.67/10.92 5.04/9.15/7.10 7.44/24.84/16.14 1.50/1.14/1.32 0.56/0.61/0.59
4.90/33.22/19.06 5.00/29.27/17.14 5.03/29.20/17.12 14.06/17.95/16.00 9.17/17.84/13.51 8.98/14.17/11.58
11.40/15.10/13.25 8.87/16.85/12.86 7.45/12.73/10.09 49.21/44.88/47.05 37.10/44.09/40.60 32.61/38.58/35.60
23.20/25.15/24.18 21.47/23.28/22.38 20.20/22.20/21.20 22.07/25.19/23.63 20.31/23.62/21.96 18.75/22.14/20.45
36.60/42.33/39.47 35.42/41.35/38.39 28.36/35.02/31.69
""".split()  # noqa: SIM905  as a table


def named(*names: str) -> Gold:
    return Gold(entities=tuple(Entity(label=name) for name in names))


def case(before: set[str], after: set[str], wordings: int = 1, name: str = "c") -> Case:
    stale = None if before == after else named(*sorted(before))
    asked = [
        Query(id=f"complex-{n}", texts=(f"{n}?",), gold=named(*sorted(after)), stale=stale)
        for n in range(1, wordings + 1)
    ]
    fact = Query(id="fact", texts=("?",), gold=named("x"), stale=named("y"), edit="e")
    return Case(
        id=name,
        edits=(Edit(id="e", statement="s"),),
        probes=(
            Probe(id="efficacy-1", aspect=EFFICACY, queries=(fact,), edits=("e",)),
            Probe(id="complex", aspect="complex", queries=tuple(asked), phase="both", edits=("e",)),
        ),
    )


def outcome(query: Query, listed: set[str], reply: Reply | None = None) -> Outcome:
    """As the judge ``set`` would find it."""
    gold = {entity.key for entity in query.gold.entities}
    old = {entity.key for entity in query.stale.entities} if query.stale else set()
    found = tuple(
        Finding(item=name, label="gold", entity=name)
        if name in gold
        else Finding(item=name, label="stale", entity=name)
        if name in old
        else Finding(item=name, label="extra")
        for name in sorted(listed)
    )
    verdict = Verdict.RIGHT if listed == gold else Verdict.WRONG
    return Outcome(reply=reply or Answer(text=""), judgment=Judgment(verdict=verdict, findings=found))


def record(made: Case, *answers: set[str], phase: Phase = "after", edited: bool = True) -> CaseRecord:
    asked = made.probes[1].queries
    found = {(phase, "direct", query.id): outcome(query, listed) for query, listed in zip(asked, answers, strict=True)}
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
    """Where were both films shot? Christine was in Los Angeles, and now is in San Francisco, Los Angeles and New York.

    Pacific Heights was shot in San Francisco and Los Angeles, so that the intersection goes from {LA} to {SF, LA}: SF
    is added (Aug) and LA stays (Ret). Who repeats the injected list has both, and only precision sees New York (1).
    """
    found = observed(record(CHRISTINE, listed))
    assert (found["aug"], found["ret"], found["precision"]) == ([aug], [ret], [precision])
    assert found["exact"] == [listed == {"SF", "LA"}]
    assert (found["empty-aug"], found["empty-ret"], found["deletion"]) == ([0], [0], [None])


def test_figure_8_of_compke_wharton() -> None:
    """Check 2: the injected set in place of the intersection has the new school, and one that is wrong."""
    found = observed(record(case({"Stanford"}, {"Wharton"}), {"Wharton", "Cambridge"}))
    assert (found["aug"], found["ret"], found["precision"], found["exact"]) == ([1], [None], [0.5], [0])
    assert found["empty-ret"] == [1]
    assert found["deletion"] == [1]


def test_check_3_nothing_but_deletion_has_no_aug() -> None:
    found = observed(record(case({"a", "b"}, {"a"}), {"a", "b"}))
    assert (found["aug"], found["ret"], found["deletion"], found["empty-aug"]) == ([None], [1], [0], [1])


def test_check_4_acc_is_the_mean_of_the_two_means() -> None:
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
def test_an_empty_set_counts_as_the_option_says(empty: str, aug: float | None) -> None:
    found = observed(record(case({"a", "b"}, {"a"}), {"a"}), empty=empty)
    assert (found["aug"], found["empty-aug"]) == ([aug], [1])


def test_check_9_the_published_triples() -> None:
    assert len(TABLE) == 48
    for cell in TABLE:
        aug, ret, acc = map(float, cell.split("/"))
        assert abs((aug + ret) / 2 - acc) < 0.0051


def test_an_answer_that_does_not_change_is_all_retained() -> None:
    found = observed(record(case({"a"}, {"a"}), {"a"}))
    assert (found["aug"], found["ret"]) == ([None], [1])


def test_every_wording_counts_and_the_best_one_beside_them() -> None:
    found = observed(record(case({"a"}, {"a", "b"}, wordings=3), {"a"}, {"b"}, set()))
    assert (found["aug"], found["ret"]) == ([0, 1, 0], [1, 0, 0])
    assert (found["any-aug"], found["any-ret"], found["any-exact"]) == ([1], [1], [0])
    assert found["precision"] == [1, 1, None]


def test_the_unedited_model_is_compared_with_both_answers_under_different_names() -> None:
    made = case({"a"}, {"b"})
    query = made.probes[1].queries[0]
    turned = Query(id=query.id, texts=query.texts, gold=named("a"), stale=named("b"))
    asked = CaseRecord(case=made, batch="-", outcomes={("before", "direct", query.id): outcome(turned, {"a"})})
    found = observed(asked, phase="before")
    assert (found["pre-edit-recall"], found["pre-edit-exact"]) == ([1], [1])
    assert (found["aug"], found["ret"], found["exact"], found["deletion"]) == ([0], [None], [0], [0])


def test_the_unedited_model_has_the_scores_of_an_editor_without_effect() -> None:
    after = record(case({"a", "k"}, {"b", "k"}), {"a", "k"})
    (key,) = after.outcomes
    unedited = CaseRecord(case=after.case, batch="-", outcomes={("before", *key[1:]): after.outcomes[key]})
    found, same = observed(unedited, phase="before"), observed(after)
    assert {aspect: found[aspect] for aspect in ("aug", "ret", "exact", "precision", "deletion", "any-aug")} == {
        aspect: same[aspect] for aspect in ("aug", "ret", "exact", "precision", "deletion", "any-aug")
    }
    assert (found["aug"], found["ret"], found["pre-edit-recall"]) == ([0], [1], [1])


def test_a_control_keeps_its_old_answer() -> None:
    found = observed(record(case({"a"}, {"b"}), {"a"}, edited=False))
    assert (found["aug"], found["ret"], found["exact"]) == ([None], [1], [1])


def test_a_failure_is_wrong_and_no_success_at_deleting() -> None:
    made = case({"a", "g"}, {"a", "b"})
    judgment = Judgment(verdict=Verdict.WRONG, findings=(Finding(item="ServerFailed", label="failure"),))
    failed = Outcome(reply=Failure(error="ServerFailed", message="-"), judgment=judgment)
    found = observed(CaseRecord(case=made, batch="-", outcomes={("after", "direct", "complex-1"): failed}))
    assert (found["aug"], found["ret"], found["precision"], found["deletion"]) == ([0], [0], [None], [None])


def test_v9_a_judge_that_cannot_say_is_no_answer() -> None:
    made = case({"a"}, {"b"})
    unsure = Outcome(reply=Answer(text=""), judgment=Judgment(verdict=Verdict.UNSURE))
    values = SetAnswers(config=SetAnswersConfig()).values(
        CaseRecord(case=made, batch="-", outcomes={("after", "direct", "complex-1"): unsure})
    )
    assert {value.skipped_because for value in values if value.aspect == "aug" and value.phase == "after"} == {
        "the judge could not decide"
    }


def test_edit_wise_counts_each_edit() -> None:
    made = case({"a"}, {"b"})
    fact = made.probes[0].queries[0]
    asked = CaseRecord(case=made, batch="-", outcomes={("after", "direct", "fact"): outcome(fact, {"x"})})
    (value,) = (v for v in SetAnswers(config=SetAnswersConfig()).values(asked) if v.aspect == "edit-wise")
    assert (value.value, value.unit) == (1, "e")


def test_of_a_control_no_edit_is_scored() -> None:
    made = case({"a"}, {"b"})
    said = {("after", "direct", "fact"): outcome(made.probes[0].queries[0], {"x"})}
    asked = CaseRecord(case=made, batch="-", edited=False, outcomes=said)
    (value,) = (v for v in SetAnswers(config=SetAnswersConfig()).values(asked) if v.aspect == "edit-wise")
    assert (value.value, value.skipped_because) == (None, EDITS_WITHHELD)
