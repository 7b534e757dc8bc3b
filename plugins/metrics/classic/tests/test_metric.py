"""The metric against numbers computed manually."""

from __future__ import annotations

import math

import pytest
from attrs import evolve

from ke_benchmarks import single_edit_probes
from ke_core.plugin import (
    EDITS_WITHHELD,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Failure,
    Outcome,
    Query,
    Scored,
    Value,
    Verdict,
)
from ke_plugin_classic import ClassicConfig, ke_metrics
from ke_plugin_classic.metric import Classic
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

ASPECTS = (
    "efficacy", "efficacy-probability", "paraphrase", "paraphrase-probability", "locality", "locality-word",
    "locality-probability",
)  # fmt: skip
MAGNITUDES = ("efficacy-magnitude", "paraphrase-magnitude", "locality-magnitude")


OWN = Query(
    id="edit",
    texts=("Where is the Tower?",),
    cloze="The Tower is in",
    gold=gold("Rome"),
    pre_edit=gold("Paris"),
    edit="e",
)
NEAR = tuple(
    Query(id=f"near-{n}", texts=(f"Where is {name}?",), cloze=f"{name} is in", gold=gold(city))
    for n, (name, city) in enumerate((("Big Ben", "London"), ("the Gate", "Berlin")), start=1)
)

CASE = Case(id="1", edits=(Edit(id="e", statement="The Tower is in Rome"),), probes=single_edit_probes(OWN, NEAR))


def scored(*pairs: tuple[float, int]) -> Outcome:
    logprobs, tokens = zip(*pairs, strict=True)
    return outcome(Scored(logprobs=logprobs, tokens=tokens), Verdict.UNSURE)


def record(style: str = "direct", **changes: Outcome) -> CaseRecord:
    """Return the record of a successful edit with ``changes`` by query id, with ``_`` for ``-``."""
    after = {
        "edit": outcome("Rome", Verdict.RIGHT),
        "edit-scored": scored((-1.0, 1), (-5.0, 1)),
        "edit-question": outcome("Rome", Verdict.RIGHT),
        "edit-question-scored": scored((-1.0, 1), (-5.0, 1)),
        "near-1": outcome("London, where it", Verdict.UNSURE),
        "near-2": outcome("Berlin, where it", Verdict.UNSURE),
        "near-1-scored": scored((-1.0, 1), (-5.0, 1)),
        "near-2-scored": scored((-1.0, 1), (-5.0, 1)),
    }
    before = {name: after[name] for name in ("near-1", "near-2")}
    outcomes = {("after", style, name): outcome for name, outcome in after.items()}
    outcomes |= {("after", style, name.replace("_", "-")): outcome for name, outcome in changes.items()}
    outcomes |= {("before", "direct", name): outcome for name, outcome in before.items()}
    return CaseRecord(case=CASE, batch="0", outcomes=outcomes)


def found(one: CaseRecord, compare: str = "mean") -> dict[str, Value]:
    return {value.aspect: value for value in Classic(config=ClassicConfig(compare=compare)).values(one)}


def values(one: CaseRecord, compare: str = "mean") -> dict[str, float | None]:
    """Return the values except magnitudes."""
    return {name: value.value for name, value in found(one, compare).items() if name not in MAGNITUDES}


def magnitudes(one: CaseRecord, compare: str = "mean") -> dict[str, float | None]:
    return {name: value.value for name, value in found(one, compare).items() if name in MAGNITUDES}


def reasons(one: CaseRecord) -> dict[str, str]:
    return {name: value.skipped_because for name, value in found(one).items() if value.value is None}


class TestClassic(MetricContract):
    name = "classic"


class TestSum(MetricContract):
    name = "classic"
    options = {"compare": "sum"}  # noqa: RUF012  the contract declares it as a ClassVar


def test_successful_edit_scores_one_in_every_aspect() -> None:
    assert values(record()) == dict.fromkeys(ASPECTS, 1)


def test_each_failure_lowers_only_its_own_aspect() -> None:
    lost = scored((-6.0, 1), (-5.0, 1))
    for change, aspect, value in (
        ({"edit": outcome("Paris", Verdict.PRE_EDIT)}, "efficacy", 0),
        ({"edit_scored": lost}, "efficacy-probability", 0),
        ({"edit_question": outcome("Oslo", Verdict.WRONG)}, "paraphrase", 0),
        ({"edit_question_scored": lost}, "paraphrase-probability", 0),
        ({"near_2": outcome("Berlin, a city", Verdict.UNSURE)}, "locality", 0.5),
        ({"near_2_scored": lost}, "locality-probability", 0.5),
    ):
        assert values(record(**change)) == dict.fromkeys(ASPECTS, 1) | {aspect: value}


def test_different_first_word_lowers_both_locality_aspects() -> None:
    assert values(record(near_1=outcome("Rome, where it", Verdict.UNSURE))) == dict.fromkeys(ASPECTS, 1) | {
        "locality": 0.5,
        "locality-word": 0.5,
    }


def test_answers_without_parsed_text_are_compared_by_their_raw_text():
    unparsed = [outcome(Answer(text="", raw=raw, outcome="unparsed"), Verdict.WRONG) for raw in ("a b", "c d")]
    one = record(near_1=unparsed[0])
    before = {**one.outcomes, ("before", "direct", "near-1"): unparsed[1]}
    assert values(evolve(one, outcomes=before))["locality"] == 0.5


def test_compare_option_selects_mean_or_sum_over_tokens() -> None:
    """-3.0 for three tokens is -1.0 per token: more than -2.0 for one token, but less as a sum."""
    long = record(edit_scored=scored((-3.0, 3), (-2.0, 1)))
    assert values(long)["efficacy-probability"] == 1
    assert values(long, "sum")["efficacy-probability"] == 0


def test_equal_probabilities_count_as_failure() -> None:
    assert values(record(edit_scored=scored((-2.0, 2), (-1.0, 1))))["efficacy-probability"] == 0


def test_partially_correct_object_gets_no_credit() -> None:
    """Teacher forcing gives 2/3 to an object if the first of three tokens is wrong."""
    assert values(record(edit_scored=scored((-9.0, 3), (-2.9, 1))))["efficacy-probability"] == 0


def test_control_expects_the_old_object() -> None:
    withheld = evolve(record(edit_scored=scored((-5.0, 1), (-1.0, 1))), edited=False)
    assert values(withheld)["efficacy-probability"] == 1
    assert values(withheld)["paraphrase-probability"] == 0


def test_control_without_a_pre_edit_answer_has_no_value() -> None:
    control = evolve(record(), edited=False)
    probes = [evolve(one, queries=tuple(evolve(q, pre_edit=None) for q in one.queries)) for one in control.case.probes]
    found = reasons(evolve(control, case=evolve(control.case, probes=tuple(probes))))
    assert {found[name] for name in ("efficacy", "efficacy-probability", "efficacy-magnitude")} == {EDITS_WITHHELD}
    assert "locality" not in found


def test_missing_log_probabilities_give_missing_values() -> None:
    words = outcome(Failure(error="NoLikelihood", message="it answers in words"), Verdict.UNSURE)
    one = record(edit_scored=words, near_1_scored=words)
    missing = ("efficacy-probability", "locality-probability", "efficacy-magnitude", "locality-magnitude")
    assert reasons(one) == dict.fromkeys(missing, "it answers in words")


def test_other_failures_count_as_wrong() -> None:
    gone = outcome(Failure(error="ServerGone", message="gone"), Verdict.WRONG)
    one = values(record(edit_scored=gone, edit=gone, near_1=gone))
    assert (one["efficacy-probability"], one["efficacy"], one["locality"]) == (0, 0, 0.5)


def test_failure_counts_as_lowest_magnitude() -> None:
    gone = outcome(Failure(error="ServerGone", message="gone"), Verdict.WRONG)
    one = record(edit_scored=gone)
    assert reasons(one) == {}
    assert magnitudes(one)["efficacy-magnitude"] == -1
    assert ke_metrics()[0].signed == set(MAGNITUDES)


def test_magnitudes_match_romes_definition() -> None:
    """Meng et al. 2022, section 3.3: EM and PM are means of P[o*] - P[o], NM is the mean of P[o] - P[o*].

    EM: 0.6 - 0.1 = 0.5. PM: 0.2 - 0.5 = -0.3. NM: the mean of 0.9 - 0.1 and 0.3 - 0.5 is 0.3.
    """

    def of(one: float, other: float) -> Outcome:
        return scored((math.log(one), 1), (math.log(other), 1))

    one = record(
        edit_scored=of(0.6, 0.1), edit_question_scored=of(0.2, 0.5), near_1_scored=of(0.9, 0.1),
        near_2_scored=of(0.3, 0.5),
    )  # fmt: skip
    assert magnitudes(one) == pytest.approx(dict(zip(MAGNITUDES, (0.5, -0.3, 0.3), strict=True)))
    assert magnitudes(evolve(one, edited=False))["efficacy-magnitude"] == pytest.approx(-0.5)


def test_magnitude_uses_geometric_mean_or_whole_object() -> None:
    """Two tokens with 0.5 and 0.32: the product is 0.16, the geometric mean 0.4."""
    one = record(edit_scored=scored((math.log(0.16), 2), (math.log(0.1), 1)))
    assert magnitudes(one)["efficacy-magnitude"] == pytest.approx(0.3)
    assert magnitudes(one, "sum")["efficacy-magnitude"] == pytest.approx(0.06)


def test_locality_requires_the_same_style_before_editing() -> None:
    why = reasons(record(style="own"))
    assert why == dict.fromkeys(("locality", "locality-word"), "the unedited model was not asked in this style")


def test_skipped_case_gives_missing_values() -> None:
    skipped = CaseRecord(case=CASE, batch="0", skipped="the subject does not occur")
    assert reasons(skipped) == dict.fromkeys((*ASPECTS, *MAGNITUDES), "the subject does not occur")


def test_edit_without_neighbors_has_no_locality() -> None:
    alone = evolve(record(), case=evolve(CASE, probes=single_edit_probes(OWN, ())))
    assert set(values(alone)) == {name for name in ASPECTS if not name.startswith("locality")}


def test_units_are_edits_and_columns_match_aspects() -> None:
    made = list(Classic().values(record()))
    (spec,) = ke_metrics()
    ahead, _texts = spec.tables.values()
    assert {value.unit for value in made} == {"e"}
    assert {*spec.columns, *ahead} == {value.aspect for value in made}
    assert len(set(spec.columns.values())) == len(spec.columns)


@pytest.mark.parametrize("text", ["Rome", "  Rome", " ", ""])
def test_continuation_starts_with_exactly_one_space(text) -> None:
    with pytest.raises(ValueError, match="exactly one space"):
        evolve(OWN, continuations=(text,))
    assert all(q.continuations[0] == " Rome" for p in CASE.probes[1:4:2] for q in p.queries)
