"""ReCoE's criterion against numbers computed manually."""

from __future__ import annotations

import math

import pytest
from attrs import evolve

from ke_benchmarks import perplexity_probes
from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    Case,
    CaseRecord,
    Edit,
    Failure,
    Outcome,
    Phase,
    Probe,
    Query,
    Scored,
    Verdict,
)
from ke_plugin_fact_perplexity import FactPerplexityConfig, ke_metrics
from ke_plugin_fact_perplexity.metric import NOT_ASKED, ONE_SIDED, WRONG_BEFORE, FactPerplexity
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

FACTS, COUNTERFACTUALS = ("Ann won two titles.", "Ben won one title."), ("Ann won no title.",)
GOLD = gold("Ben")


def case(facts=FACTS, counterfactuals=COUNTERFACTUALS) -> Case:
    question = Query(id="question", texts=("Who won more?",), gold=GOLD)
    return Case(
        id="1",
        edits=(Edit(id="e", statement="Ann won no title."),),
        probes=(
            Probe(id="efficacy", aspect=EFFICACY, queries=(Query(id="own", texts=("?",), gold=GOLD),), edits=("e",)),
            Probe(id="reasoning", aspect="reasoning", queries=(question,), phase="both"),
            *perplexity_probes(facts, counterfactuals, edits=("e",)),
        ),
        tags={"scheme": "comparative"},
    )


def scored(perplexity: float, tokens: int = 4) -> Outcome:
    """Return a sentence with that perplexity: log p = -tokens * ln(perplexity)."""
    return outcome(Scored(logprobs=(-tokens * math.log(perplexity),), tokens=(tokens,)), Verdict.UNSURE)


def asked(phase: Phase, *perplexities: float, style: str = "direct") -> dict:
    names = ("perplexity-facts-1", "perplexity-facts-2", "perplexity-counterfactuals-1")
    return {(phase, style, name): scored(p) for name, p in zip(names, perplexities, strict=True)}


def record(before=(10.0, 14.0, 17.0), after=(5.0, 5.0, 3.0), *, verdict=Verdict.RIGHT, **rest) -> CaseRecord:
    outcomes = (
        {("before", "direct", "question"): outcome("Ben", verdict)} | asked("before", *before) | asked("after", *after)
    )
    return CaseRecord(**{"case": case(), "batch": "0", "outcomes": outcomes, **rest})


def values(one: CaseRecord, phase: Phase = "after", cases: str = "correct") -> dict[str, float | str | None]:
    found = FactPerplexity(config=FactPerplexityConfig(cases=cases)).values(one)
    return {v.aspect: v.skipped_because or v.value for v in found if v.phase == phase}


class TestFactPerplexity(MetricContract):
    name = "fact-perplexity"

    @pytest.fixture
    def record(self) -> CaseRecord:
        return record()


def test_perplexities_difference_and_success() -> None:
    """Before: PPL(F) = (10 + 14) / 2 = 12, PPL(CF) = 17, Delta = 5. After: Delta = 3 - 5 = -2 < min(5, 0): success."""
    assert values(record(), "before") == pytest.approx(
        {"perplexity-facts": 12, "perplexity-counterfactuals": 17, "difference": 5}
    )
    assert values(record()) == pytest.approx(
        {
            "perplexity-facts": 5,
            "perplexity-counterfactuals": 3,
            "difference": -2,
            "fact-wise": 1,
            "fact-wise-comparative": 1,
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "success"),
    [(4.83, -2.45, 1), (4.83, 0.5, 0), (-2.16, -28.95, 1), (-2.16, -1.0, 0), (-2.16, -2.16, 0), (4.83, 0.0, 0)],
)
def test_criterion_on_six_pairs(before, after, success) -> None:
    """Delta after editing must be below zero and below Delta before."""
    pairs = ((100.0, 100.0, 100.0 + before), (100.0, 100.0, 100.0 + after))
    assert values(record(*pairs))["fact-wise"] == success


def test_difference_has_the_sign_of_the_formula() -> None:
    """17.52 - 12.69 = 4.83; the paper's table prints -4.83."""
    assert values(record(before=(12.69, 12.69, 17.52)), "before")["difference"] == pytest.approx(4.83)


def test_option_of_selects_cases() -> None:
    wrong = record(verdict=Verdict.WRONG)
    assert set(values(wrong).values()) == {WRONG_BEFORE}
    assert values(wrong, cases="all")["fact-wise"] == 1


def test_perplexity_is_per_token_and_averaged_over_sentences() -> None:
    """A sentence's perplexity is per token: e^(6/3) = e^2."""
    one = record()
    long = outcome(Scored(logprobs=(-6.0,), tokens=(3,)), Verdict.UNSURE)
    outcomes = {**one.outcomes, ("before", "direct", "perplexity-counterfactuals-1"): long}
    again = CaseRecord(case=one.case, batch="0", outcomes=outcomes)
    assert values(again, "before")["perplexity-counterfactuals"] == pytest.approx(math.e**2)


def test_missing_number_has_its_reason() -> None:
    words = outcome(Failure(error="NoLikelihood", message="it answers in words"), Verdict.UNSURE)
    full = record()
    silent = {**full.outcomes, ("after", "direct", "perplexity-facts-2"): words}
    found = values(CaseRecord(case=full.case, batch="0", outcomes=silent))
    assert found["perplexity-counterfactuals"] == pytest.approx(3)
    assert {found[name] for name in ("perplexity-facts", "difference", "fact-wise")} == {"it answers in words"}
    one_sided = CaseRecord(case=case(counterfactuals=()), batch="0", outcomes=full.outcomes)
    assert values(one_sided)["fact-wise"] == ONE_SIDED
    assert set(values(record(edited=False)).values()) == {EDITS_WITHHELD}


@pytest.mark.parametrize(("side", "success"), [("facts", 1), ("counterfactuals", 0)])
def test_perplexity_that_is_too_large_for_a_number_is_compared(side, success) -> None:
    one = record(before=(10.0, 14.0, 17.0), after=(5.0, 5.0, 3.0))
    huge = outcome(Scored(logprobs=(-1e9,), tokens=(1,)), Verdict.UNSURE)
    over = {**one.outcomes, ("after", "direct", f"perplexity-{side}-1"): huge}
    found = values(CaseRecord(case=one.case, batch="0", outcomes=over))
    assert found["fact-wise"] == success
    assert {found[name] for name in (f"perplexity-{side}", "difference")} == {"too large for a number"}


def test_failed_sentence_is_no_success() -> None:
    good = record(before=(10.0, 14.0, 17.0), after=(5.0, 5.0, 3.0))
    assert values(good)["fact-wise"] == 1
    gone = outcome(Failure(error="ServerGone", message="gone"), Verdict.WRONG)
    failed = evolve(good, outcomes={**good.outcomes, ("after", "direct", "perplexity-facts-1"): gone})
    assert values(failed)["fact-wise"] == 0
    words = outcome(Failure(error="NoLikelihood", message="words"), Verdict.UNSURE)
    unmeasured = evolve(good, outcomes={**good.outcomes, ("after", "direct", "perplexity-facts-1"): words})
    assert values(unmeasured)["fact-wise"] == "words"


def test_success_requires_the_same_style_before_editing() -> None:
    own = {("before", "direct", "question"): outcome("Ben", Verdict.RIGHT)} | asked("after", 5, 5, 3, style="own")
    found = values(CaseRecord(case=case(), batch="0", outcomes=own))
    assert found["fact-wise"] == NOT_ASKED
    assert found["difference"] == pytest.approx(-2)


def test_case_without_sentences_has_no_values() -> None:
    assert values(CaseRecord(case=case((), ()), batch="0")) == {}


def test_sentences_are_scored_after_their_first_word() -> None:
    facts, other = perplexity_probes(("Ann  won two titles.", "Ann won two titles.", "Yes."), ("Ann won.",))
    assert [(q.texts, q.continuations, q.edit) for q in facts.queries] == [(("Ann",), (" won two titles.",), None)]
    assert [q.continuations for q in other.queries] == [(" won.",)]
    assert {probe.phase for probe in (facts, other)} == {"both"}


def test_columns_match_aspects() -> None:
    (spec,) = ke_metrics()
    assert set(spec.columns) <= set(values(record()))
    assert all(name in spec.averages["fact-wise-average"] for name in values(record()) if name.startswith("fact-wise-"))


# the facts of the paper's figure 7, reworded: two atomic facts of one choice, one of the other, exchanged
FIGURE_7 = (
    ("Brody Jenner dated Lauren Conrad briefly.", "He did so in 2006.", "Heidi Montag has never dated Brody Jenner."),
    ("Lauren Conrad has never dated Brody Jenner.", "Brody Jenner dated Heidi Montag briefly.", "She did so in 2006."),
)


def test_figure_7() -> None:
    """Before: PPL(F) = (8 + 10 + 12) / 3 = 10, PPL(CF) = (14 + 16 + 18) / 3 = 16, Delta = 6.

    After: (9 + 11 + 4) / 3 = 8 and (5 + 4 + 6) / 3 = 5, Delta = -3 < min(6, 0): success. With PPL(CF) =
    (7 + 8 + 12) / 3 = 9, Delta = 1: no success.
    """
    made = case(*FIGURE_7)
    assert [len(probe.queries) for probe in made.probes[-2:]] == [3, 3]

    def outcomes(phase: Phase, facts: tuple[float, ...], counterfactuals: tuple[float, ...]) -> dict:
        sides = {"facts": facts, "counterfactuals": counterfactuals}
        return {
            (phase, "direct", f"perplexity-{side}-{at}"): scored(p)
            for side, of in sides.items()
            for at, p in enumerate(of, start=1)
        }

    known = {("before", "direct", "question"): outcome("Ben", Verdict.RIGHT)} | outcomes(
        "before", (8, 10, 12), (14, 16, 18)
    )
    one = CaseRecord(case=made, batch="0", outcomes=known | outcomes("after", (9, 11, 4), (5, 4, 6)))
    assert values(one, "before")["difference"] == pytest.approx(6)
    assert (values(one)["difference"], values(one)["fact-wise"]) == (pytest.approx(-3), 1)
    weak = CaseRecord(case=made, batch="0", outcomes=known | outcomes("after", (9, 11, 4), (7, 8, 12)))
    assert (values(weak)["difference"], values(weak)["fact-wise"]) == (pytest.approx(1), 0)
