"""The metric against numbers computed manually."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import pytest
from attrs import evolve

from ke_core.plugin import EDITS_WITHHELD, Answer, CaseRecord, Failure, Verdict
from ke_plugin_multi_hop import ke_metrics
from ke_plugin_multi_hop.metric import MultiHop
from ke_testing.metric import MetricContract
from ke_testing.records import outcome

R, W, S, U = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE


class TestMultiHop(MetricContract):
    name = "multi-hop"


def scores(*records: CaseRecord) -> dict[tuple[str, str], float]:
    found = defaultdict(list)
    for one in records:
        for value in MultiHop().values(one):
            if value.value is not None:
                found[value.aspect, value.phase].append(value.value)
    return {key: mean(values) for key, values in found.items()}


def named(one: CaseRecord, aspect: str, phase: str = "after"):
    return [value for value in MultiHop().values(one) if (value.aspect, value.phase) == (aspect, phase)]


@pytest.fixture
def four_edits(case, record) -> CaseRecord:
    """A case with four edits and four hops; no wording is answered correctly."""
    return record(case("b", 4, 4), hops=[W, R, R, R], multi=[W, S, W], before=[W, W, W], old=[R, R, R, W])


def test_two_cases(one_edit, four_edits) -> None:
    """Edit-wise success over 1 and 4 edits is a mean over 5 edits, not over 2 cases."""
    assert scores(one_edit, four_edits) == {
        ("edit-wise", "after"): pytest.approx(4 / 5),
        ("instance-wise", "after"): 0.0,
        ("multi-hop", "before"): 0.0,
        ("multi-hop", "after"): 1 / 2,
        ("still-pre-edit", "before"): 1 / 2,
        ("still-pre-edit", "after"): 1 / 2,
        ("multi-hop-recalled", "before"): 0.0,
        ("multi-hop-recalled", "after"): 1.0,
        ("pre-edit-instance-wise", "before"): 1 / 2,
        ("pre-edit-multi-hop", "before"): 1 / 2,
    }


def test_instance_wise_is_zero_when_any_hop_fails(case, record) -> None:
    good = record(case("a", 1, 3), hops=[R, R, R], multi=[W, W, W])
    assert scores(good)["instance-wise", "after"] == 1
    for n in range(3):
        hops = [R, R, R]
        hops[n] = W
        assert scores(record(case("a", 1, 3), hops=hops, multi=[W, W, W]))["instance-wise", "after"] == 0


def test_every_style_has_its_own_values(case, record) -> None:
    direct = record(case("a", 1, 2), hops=[R, R], multi=[W, W, W])
    cot = {("after", "cot", f"multi-{n}"): outcome("x", R) for n in (1, 2, 3)}
    both = evolve(direct, outcomes={**direct.outcomes, **cot})
    assert {value.style: value.value for value in named(both, "multi-hop")} == {"direct": 0, "cot": 1}
    assert [value.style for value in named(both, "edit-wise")] == ["direct"]


def test_units_of_the_bootstrap_are_edits_and_cases(four_edits) -> None:
    assert [value.unit for value in named(four_edits, "edit-wise")] == ["b-e1", "b-e2", "b-e3", "b-e4"]
    assert [value.unit for value in named(four_edits, "multi-hop")] == ["b"]


def test_pre_edit_answer_counts_only_if_no_wording_is_right(case, record) -> None:
    assert named(record(case("a", 1, 2), hops=[R, R], multi=[S, R, S]), "still-pre-edit")[0].value == 0
    assert named(record(case("a", 1, 2), hops=[R, R], multi=[S, W, S]), "still-pre-edit")[0].value == 1


def test_only_the_multi_hop_question_of_a_control_is_scored(one_edit) -> None:
    """Its gold chain is the original one. Other cases may edit its single-hop questions."""
    control = evolve(one_edit, edited=False)
    assert named(control, "multi-hop")[0].value == 1
    assert named(control, "pre-edit-instance-wise", "before")[0].value == 1
    for aspect in ("edit-wise", "instance-wise", "still-pre-edit"):
        (value,) = named(control, aspect)
        assert (value.value, value.skipped_because) == (None, EDITS_WITHHELD)


@pytest.mark.parametrize(
    ("before", "new", "old"), [([R, W, W], 0, 1), ([S, W, W], 1, 0), ([R, S, W], 1, 0), ([W, W, W], 0, 0)]
)
def test_unedited_model_scores_like_an_editor_without_effect(before, new, old, case, record) -> None:
    """Before editing the pre-edit answer is right, and the new one is labeled pre-edit; after editing, vice versa."""
    turned = [{R: S, S: R}.get(verdict, verdict) for verdict in before]
    unedited = record(case("a", 1, 2), hops=[W, W], multi=turned, before=before, old=[R, R])
    for aspect, value in (("multi-hop", new), ("still-pre-edit", old)):
        assert [one.value for one in named(unedited, aspect, "before")] == [value]
        assert named(unedited, aspect)[0].value == value
    assert named(unedited, "pre-edit-multi-hop", "before")[0].value == float(R in before)
    assert not named(unedited, "instance-wise", "before")


def test_unchanged_answer_is_right_before_and_after(case, record) -> None:
    one = case("a", 1, 2, questions=1)
    (*probes, multi) = one.probes
    for pre_edit in (None, multi.queries[0].gold):
        same = evolve(multi, queries=(evolve(multi.queries[0], pre_edit=pre_edit),))
        unedited = record(evolve(one, probes=(*probes, same)), hops=[W, W], multi=[R], before=[R], old=[R, R])
        for aspect in ("multi-hop", "pre-edit-multi-hop"):
            assert named(unedited, aspect, "before")[0].value == 1


def test_control_expects_pre_edit_answers_in_both_phases(one_edit) -> None:
    control = evolve(one_edit, edited=False)
    assert [value.value for phase in ("before", "after") for value in named(control, "multi-hop", phase)] == [1, 1]


def test_recalled_includes_only_cases_with_recalled_facts(case, record, one_edit, four_edits) -> None:
    """The unedited model recalls every fact of ``one_edit``, but not of ``four_edits``."""
    assert named(one_edit, "multi-hop-recalled")[0].value == 1
    (left_out,) = named(four_edits, "multi-hop-recalled")
    assert (left_out.value, left_out.skipped_because) == (
        None,
        "the unedited model does not recall every fact of the case",
    )
    (unknown,) = named(record(case("a", 1, 2), hops=[R, R], multi=[R, R, R]), "multi-hop-recalled")
    assert unknown.skipped_because == "the unedited model was not asked for every fact of the case"


@pytest.mark.parametrize("questions", [1, 2, 3, 5])
def test_any_number_of_wordings(questions, case, record) -> None:
    """Published code assumes exactly three: ``if qid == 2``, ``total * 3``, ``range(3)``."""
    some = case("a", 1, 2, questions=questions)
    for right in range(questions):
        verdicts = [R if n == right else W for n in range(questions)]
        assert named(record(some, hops=[R, R], multi=verdicts), "multi-hop")[0].value == 1
    assert named(record(some, hops=[R, R], multi=[W] * questions), "multi-hop")[0].value == 0


def test_missing_verdict_is_counted_with_its_reason(case, record) -> None:
    """EasyEdit silently excludes NaN items from the mean."""
    part = record(case("a", 2, 2), hops=[R], multi=[R, R])
    for aspect in ("instance-wise", "multi-hop", "still-pre-edit"):
        (value,) = named(part, aspect)
        assert value.value is None
        assert value.skipped_because == "a question has no recorded answer"
    assert [value.value for value in named(part, "edit-wise")] == [1, None]


def test_unsure_verdict_is_counted_with_its_reason(case, record) -> None:
    (value,) = named(record(case("a", 1, 2), hops=[R, R], multi=[R, U, R]), "multi-hop")
    assert (value.value, value.skipped_because) == (None, "the judge could not decide")


def test_skipped_case_gives_missing_values(case) -> None:
    skipped = CaseRecord(case=case("b", 4, 4), batch="0", skipped="the subject does not occur")
    found = list(MultiHop().values(skipped))
    assert {value.skipped_because for value in found} == {"the subject does not occur"}
    assert {value.value for value in found} == {None}
    assert len([value for value in found if value.aspect == "edit-wise"]) == 4


def test_values_have_unique_names(four_edits) -> None:
    found = [(value.aspect, value.phase, value.style, value.unit) for value in MultiHop().values(four_edits)]
    assert len(found) == len(set(found))


def test_columns_match_aspects(four_edits) -> None:
    spec, _retrieval = ke_metrics()
    aspects = {value.aspect for value in MultiHop().values(four_edits)}
    (further,) = spec.tables.values()
    assert {*spec.columns, *further} == aspects
    assert len(set(spec.columns.values())) == len(spec.columns)


def test_failures_and_truncated_answers_count_as_wrong(case, record) -> None:
    some = record(case("a", 1, 2), hops=[R, R], multi=[W, W, W])
    outcomes = {
        **some.outcomes,
        ("after", "direct", "multi-1"): outcome(Answer(text="", outcome="hop-cap"), W),
        ("after", "direct", "multi-2"): outcome(Failure(error="E", message="m"), W),
    }
    (value,) = named(evolve(some, outcomes=outcomes), "multi-hop")
    assert (value.value, value.skipped_because) == (0, "")


def test_all_right_scores_one_and_all_wrong_scores_zero() -> None:
    from ke_testing.toy import toy_record

    rates = {"edit-wise", "instance-wise", "multi-hop"}
    for verdict, value in ((R, 1), (W, 0), (S, 0)):
        found = [v for v in MultiHop().values(toy_record(verdict)) if v.aspect in rates and v.phase == "after"]
        assert {v.aspect for v in found} == rates
        assert {v.value for v in found} == {value}
