"""Both protocols, computed manually."""

import pytest
from attrs import evolve

from ke_core.plugin import EDITS_WITHHELD, Case, CaseRecord, Edit, Failure, Probe, Query, Scored, Verdict
from ke_plugin_wild.metric import Wild
from ke_testing.metric import MetricContract
from ke_testing.records import gold, metric_scores, outcome

OWN = Query(id="edit", texts=("Who?",), gold=gold("Rome"), edit="e")
TARGET = Query(id="scored", texts=("Who?",), gold=gold("Rome"), continuations=(" Oslo", " Rome"))
ALL_MATCH = outcome(Scored(logprobs=(-9.0, -2.0), tokens=(2, 3), matches=(0, 3)), Verdict.UNSURE)


def record(answer=None, scored=None, *, aspect="efficacy-teacher-forced"):
    probes = (
        Probe(id="efficacy", aspect="efficacy", queries=(OWN,), phase="both", edits=("e",)),
        Probe(id="forced", aspect=aspect, queries=(TARGET,), phase="both", edits=("e",)),
    )
    case = Case(id="1", edits=(Edit(id="e", statement="Rome"),), probes=probes)
    replies = {
        "edit": answer or outcome("Rome", Verdict.RIGHT),
        "scored": scored or outcome(Scored(logprobs=(-9.0, -2.0), tokens=(2, 3), matches=(0, 2)), Verdict.UNSURE),
    }
    outcomes = {(phase, "question", name): one for phase in ("before", "after") for name, one in replies.items()}
    return CaseRecord(case=case, batch="0", outcomes=outcomes)


def scores(records):
    """The scores of the edited models. Each record is a case of its own."""
    own = [evolve(one, case=evolve(one.case, id=str(n)), batch=str(n)) for n, one in enumerate(records)]
    return {aspect: score for (aspect, phase), score in metric_scores("wild", *own).items() if phase == "after"}


def values(one, phase="after"):
    return {value.aspect: value for value in Wild().values(one) if value.phase == phase}


class TestContract(MetricContract):
    name = "wild"

    @pytest.fixture
    def record(self):
        return record()


def test_wrong_first_token_of_three_gets_two_thirds_with_teacher_forcing_and_nothing_otherwise() -> None:
    """Target "a b c": the most probable tokens given the target are "x b c", and the model generates "x y z"."""
    found = values(record(answer=outcome("x y z", Verdict.WRONG)))
    assert found["efficacy-tokens"].value == pytest.approx(2 / 3)
    assert found["efficacy-all-tokens"].value == 0
    assert found["efficacy-generated"].value == 0
    assert found["efficacy-inflation"].value == pytest.approx(2 / 3)


def test_all_tokens_match() -> None:
    found = values(record(scored=ALL_MATCH))
    assert [value.value for value in found.values()] == [1, 1, 1, 0]


@pytest.mark.parametrize("aspect", ["efficacy-teacher-forced", "efficacy-probability"])
def test_both_models_are_scored_on_either_probe(aspect) -> None:
    assert values(record(aspect=aspect), "before")["efficacy-tokens"].value == pytest.approx(2 / 3)


@pytest.mark.parametrize(("verdict", "generated"), [(Verdict.RIGHT, 0), (Verdict.PRE_EDIT, 1)])
def test_both_protocols_score_the_new_object_before_the_edit(verdict, generated) -> None:
    """With a pre-edit answer, the judge compares with that before the edit."""
    one = record(answer=outcome("x", verdict))
    first, *others = one.case.probes
    probe = evolve(first, queries=(evolve(OWN, pre_edit=gold("Oslo")),))
    found = values(evolve(one, case=evolve(one.case, probes=(probe, *others))), "before")
    assert found["efficacy-generated"].value == generated
    assert found["efficacy-inflation"].value == pytest.approx(2 / 3 - generated)


@pytest.mark.parametrize(
    ("scored", "why"),
    [
        (Scored(logprobs=(-9.0, -2.0), tokens=(2, 3)), "the server does not return the most probable tokens"),
        (Failure(error="NoLikelihood", message="text only"), "text only"),
    ],
)
def test_missing_log_probabilities_leave_the_generated_answer(scored, why) -> None:
    found = values(record(scored=outcome(scored, Verdict.UNSURE)))
    assert (found["efficacy-tokens"].value, found["efficacy-tokens"].skipped_because) == (None, why)
    assert found["efficacy-inflation"].value is None
    assert found["efficacy-generated"].value == 1


def test_failed_requests_count_as_wrong_in_both_protocols() -> None:
    """Two of ten edits succeed, and the others fail."""
    failed = outcome(Failure(error="EditFailed", message="no"), Verdict.WRONG)
    found = scores([record(scored=ALL_MATCH)] * 2 + [record(answer=failed, scored=failed)] * 8)
    assert {aspect: (score.value, score.n) for aspect, score in found.items()} == {
        "efficacy-tokens": (0.2, 10),
        "efficacy-all-tokens": (0.2, 10),
        "efficacy-generated": (0.2, 10),
        "efficacy-inflation": (0.0, 10),
    }


def test_the_interval_of_inflation_extends_below_zero() -> None:
    interval = scores([record(scored=ALL_MATCH)] * 20)["efficacy-inflation"].interval
    assert (interval.low, interval.high) == pytest.approx((-0.168433, 0.168433))


def test_control_has_no_values_after_the_edits_of_others() -> None:
    control = evolve(record(), edited=False)
    assert {value.skipped_because for value in values(control).values()} == {EDITS_WITHHELD}
    assert values(control, "before")["efficacy-tokens"].value == pytest.approx(2 / 3)


@pytest.mark.parametrize("aspect", ["efficacy-teacher-forced", "efficacy-probability"])
def test_both_protocols_score_the_target_before_editing(aspect) -> None:
    """The model generates the old object, and two of three tokens of the target match."""
    one = record(answer=outcome("Oslo", Verdict.RIGHT), aspect=aspect)
    probes = tuple(
        evolve(probe, queries=(evolve(probe.queries[0], pre_edit=gold("Oslo")),)) for probe in one.case.probes
    )
    found = values(evolve(one, case=evolve(one.case, probes=probes)), "before")
    assert found["efficacy-tokens"].value == pytest.approx(2 / 3)
    assert found["efficacy-generated"].value == 0


def test_dataset_that_scores_no_target_has_a_reason() -> None:
    found = values(record(aspect="other"))
    assert found["efficacy-tokens"].skipped_because == "the dataset does not score the target"
    assert "paraphrase-tokens" not in found


def test_questions_in_two_languages_have_values_of_their_own() -> None:
    one = record()
    english, german = (
        evolve(one.case.probes[0], id=name, queries=(evolve(OWN, id=name, tags={"language": name}),))
        for name in ("en", "de")
    )
    answers = {"en": outcome("Rome", Verdict.RIGHT), "de": outcome("Oslo", Verdict.WRONG)}
    outcomes = {("after", "question", name): answer for name, answer in answers.items()}
    both = evolve(one, case=evolve(one.case, probes=(english, german)), outcomes=outcomes)
    found = {
        value.tags["language"]: value.value
        for value in Wild().values(both)
        if value.aspect == "efficacy-generated" and value.phase == "after"
    }
    assert found == {"en": 1, "de": 0}
