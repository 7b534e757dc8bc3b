"""Correct flip and QA accuracy against numbers computed manually."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from ke_core.app import aggregate
from ke_core.plugin import EDITS_WITHHELD, EFFICACY, Case, CaseRecord, Edit, Phase, Probe, Query, Verdict
from ke_plugin_correct_flip import SCHEMES, CorrectFlipConfig, ke_metrics
from ke_plugin_correct_flip.metric import WRONG_BEFORE, CorrectFlip
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome, reasoning_record

R, W, S, U = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE
Said = Mapping[tuple[Phase, str], Verdict]


class TestCorrectFlip(MetricContract):
    name = "correct-flip"

    @pytest.fixture
    def record(self) -> CaseRecord:
        return reasoning_record(before=outcome("x", R), after=outcome("x", R))


def case(name: str, said: Said, *, scheme: str = "superlative") -> CaseRecord:
    """Return a case with the verdicts on its question. Before the edit A is RIGHT, after it CA; A is PRE_EDIT then."""
    query = Query(id="question", texts=("Which?",), gold=gold("CA"), pre_edit=gold("A"))
    probe = Probe(id="reasoning", aspect="reasoning", queries=(query,), phase="both", edits=("e",))
    return CaseRecord(
        case=Case(id=name, edits=(Edit(id="e", statement="s"),), probes=(probe,), tags={"scheme": scheme}),
        batch="1",
        outcomes={(phase, style, "question"): outcome("x", verdict) for (phase, style), verdict in said.items()},
    )


def direct(before: Sequence[Verdict], after: Sequence[Verdict], scheme: str = "superlative") -> list[CaseRecord]:
    return [
        case(f"{scheme}-{at}", {("before", "direct"): one, ("after", "direct"): other}, scheme=scheme)
        for at, (one, other) in enumerate(zip(before, after, strict=True))
    ]


def scored(records: Sequence[CaseRecord], **options: Any) -> dict[tuple[str, str], Any]:
    (spec,) = ke_metrics()
    every = aggregate(CorrectFlip(config=CorrectFlipConfig(**options)), spec, records, seed=0)
    return {(score.aspect, score.style): score for score in every if not score.tags}


def test_only_questions_answered_correctly_before_can_flip() -> None:
    """Before: A, A, wrong, A. After: CA, A, CA, wrong."""
    scores = scored(direct([R, R, W, R], [R, S, R, W]))
    flip = scores["correct-flip", "direct"]
    assert (flip.value, flip.n, flip.skipped_because) == (pytest.approx(1 / 3), 3, {WRONG_BEFORE: 1})
    assert (scores["kept", "direct"].value, scores["kept", "direct"].n) == (pytest.approx(1 / 3), 3)
    assert (scores["counterfactual", "direct"].value, scores["counterfactual", "direct"].n) == (0.5, 4)
    assert (scores["qa", "direct"].value, scores["qa", "direct"].n) == (0.75, 4)


def test_empty_denominator_gives_no_score() -> None:
    flip = scored(direct([W, W], [R, R]))["correct-flip", "direct"]
    assert (flip.value, flip.n, flip.skipped) == (None, 0, 2)


def test_each_style_has_its_own_denominator() -> None:
    said: Said = {
        ("before", "direct"): R, ("before", "cot"): W, ("after", "direct"): S, ("after", "cot"): R,
    }  # fmt: skip
    other: Said = {
        ("before", "direct"): W, ("before", "cot"): R, ("after", "direct"): R, ("after", "cot"): R,
    }  # fmt: skip
    scores = scored([case("1", said), case("2", other)])
    assert [(scores["correct-flip", s].value, scores["correct-flip", s].n) for s in ("direct", "cot")] == [
        (0, 1),
        (1, 1),
    ]


def test_own_prompts_sent_to_both_models_have_their_own_denominator() -> None:
    """The option ``before`` has no effect then."""
    said: Said = {("before", "direct"): W, ("before", "cot"): W, ("before", "own"): R, ("after", "own"): R}
    other: Said = {("before", "direct"): R, ("before", "cot"): R, ("before", "own"): W, ("after", "own"): R}
    for style in ("direct", "cot"):
        scores = scored([case("1", said), case("2", other)], before=style)
        flip = scores["correct-flip", "own"]
        assert (flip.value, flip.n, flip.skipped_because) == (1, 1, {WRONG_BEFORE: 1})
    assert (scores["qa", "own"].value, scores["qa", "own"].n) == (0.5, 2)


@pytest.mark.parametrize(("before", "value"), [("direct", None), ("cot", 1)])
def test_option_before_selects_the_style_for_own_prompts(before: str, value: Any) -> None:
    said: Said = {("before", "direct"): W, ("before", "cot"): R, ("after", "own"): R}
    assert scored([case("1", said)], before=before)["correct-flip", "own"].value == value


def test_average_is_the_unweighted_mean_over_schemes() -> None:
    """The published row of 7B, direct, with input augmentation: 24.68."""
    flipped = {"superlative": (84, 167), "comparative": (53, 128), "counting": (48, 204), "sorting": (11, 140)}
    flipped |= {"aggregation": (4, 52), "subtraction": (9, 52)}
    assert set(flipped) == set(SCHEMES)
    records = [
        record
        for scheme, (of, n) in flipped.items()
        for record in direct([R] * n, [R] * of + [S] * (n - of), scheme=scheme)
    ]
    scores = scored(records)
    assert scores["correct-flip-superlative", "direct"].value == pytest.approx(0.5030, abs=5e-5)
    assert scores["correct-flip-average", "direct"].value == pytest.approx(0.2468, abs=6e-4)


@pytest.mark.parametrize(
    ("right", "n", "printed"),
    [(128, 1171, 10.93), (204, 643, 31.73), (140, 1041, 13.45), (52, 509, 10.22), (52, 501, 10.38), (167, 1331, 12.55)],
)
def test_denominator_is_the_number_of_correct_answers(right: int, n: int, printed: float) -> None:
    """QA accuracy is a fraction of all questions, correct flip one of those answered correctly."""
    scores = scored(direct([R] * right + [W] * (n - right), [W] * n))
    assert scores["qa", "direct"].value * 100 == pytest.approx(printed, abs=0.005)
    assert scores["correct-flip", "direct"].n == right


def test_controls_have_qa_accuracy_and_no_flip() -> None:
    (one,) = direct([R], [R])
    scores = scored([evolve(one, edited=False)])
    assert scores["qa", "direct"].value == 1
    assert scores["correct-flip", "direct"].skipped_because == {EDITS_WITHHELD: 1}


def test_resampling_unit_of_edit_wise_is_the_edit() -> None:
    """Several cases may share an edit; a question is resampled with its case."""
    (one,) = direct([R], [R])
    probes = tuple(
        Probe(id=edit, aspect=EFFICACY, queries=(Query(id=edit, texts=("?",), gold=gold("x")),), edits=(edit,))
        for edit in ("e", "f")
    )
    case_ = evolve(one.case, probes=(*probes, *one.case.probes))
    found = {value.unit for value in CorrectFlip().values(evolve(one, case=case_)) if value.aspect == "edit-wise"}
    assert found == {"e", "f"}
    assert {value.unit for value in CorrectFlip().values(one)} == {""}


def test_unsure_verdict_is_not_wrong() -> None:
    assert scored(direct([U, R], [R, U]))["correct-flip", "direct"].value is None


# answers to the question of the paper's figure 7 (who was Brody Jenner's last famous girlfriend?)
CONRAD, MONTAG = {"Lauren Conrad", "Lauren K. Conrad", "L.C."}, {"Heidi Montag", "Heidi Pratt", "Heidi B. Montag"}


def test_figure_7() -> None:
    """Before: A, an alias of A, CA, A. After: an alias of CA, CA, CA, A.

    QA accuracy is 3 of 4. Two of these three flip. The third question was wrong before, so it does not count for
    correct flip, only for counterfactual: 3 of 4.
    """
    said = [
        ("Lauren Conrad", "Heidi Pratt"), ("L.C.", "Heidi Montag"), ("Heidi Montag", "Heidi Montag"),
        ("Lauren K. Conrad", "L.C."),
    ]  # fmt: skip
    before = [R if one in CONRAD else S if one in MONTAG else W for one, _ in said]
    after = [R if one in MONTAG else S if one in CONRAD else W for _, one in said]
    scores = scored(direct(before, after))
    assert (scores["qa", "direct"].value, scores["qa", "direct"].n) == (0.75, 4)
    assert (scores["correct-flip", "direct"].value, scores["correct-flip", "direct"].n) == (pytest.approx(2 / 3), 3)
    assert scores["counterfactual", "direct"].value == 0.75
