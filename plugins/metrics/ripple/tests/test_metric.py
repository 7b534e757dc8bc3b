"""The score against numbers computed manually."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from attrs import evolve

from ke_core.app import aggregate
from ke_core.plugin import (
    EFFICACY,
    NOT_ON_RECORD,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Finding,
    Gold,
    Judgment,
    Outcome,
    Probe,
    Query,
    Value,
    Verdict,
)
from ke_plugin_analysis.common import NOT_IN_ALL, shared_scores
from ke_plugin_ripple import CRITERIA, RippleConfig, ke_metrics
from ke_plugin_ripple.metric import FAILED, NO_NAME, NO_OLD, NOT_MET, NOT_PUT, Ripple
from ke_testing.metric import MetricContract

R, W, S, U = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE
LG, CI, CII, SA, PV, RS = CRITERIA
A, B = Entity(label="A"), Entity(label="B")
One = tuple[str, list[Verdict], list[Verdict]]
"""Criterion, verdicts on the queries of a test, and verdicts on its conditions."""


def outcome(verdict: Verdict, *named: str) -> Outcome:
    found = tuple(Finding(item=name, label="gold", entity=name) for name in named)
    return Outcome(reply=Answer(text="x"), judgment=Judgment(verdict=verdict, findings=found))


def query(name: str, *gold: Entity) -> Query:
    return Query(id=name, texts=(name,), form="cloze", gold=Gold(entities=gold, require="any"))


def one_of_each() -> CaseRecord:
    own = Probe(id="own", aspect=EFFICACY, queries=(query("own", A),), edits=("e",))
    tests = [Probe(id=a, aspect=a, queries=(query(a, A),), given=(query(f"{a}-given", A),)) for a in CRITERIA]
    case = Case(id="1", edits=(Edit(id="e", statement="s"),), probes=(own, *tests))
    before = {("before", "cloze", given.id): outcome(R) for probe in tests for given in probe.given}
    after = {("after", "cloze", asked.id): outcome(R) for probe in case.probes for asked in probe.queries}
    return CaseRecord(case=case, batch="1", outcomes=before | after)


class TestRipple(MetricContract):
    name = "ripple"

    @pytest.fixture
    def record(self) -> CaseRecord:
        """An edit with a test of each criterion."""
        return one_of_each()


class TestAsReleased(TestRipple):
    options: ClassVar[dict[str, str]] = {"targets": "all", "unit": "tests", "aliasing": "old", "edits": "all"}


def edit(name: str, *tests: One, took: Verdict = R, require: Any = "any", style: str = "cloze") -> CaseRecord:
    """Return the record of one edit and its tests."""
    probes = [Probe(id="own", aspect=EFFICACY, queries=(query("own", A),), edits=("e",))]
    outcomes: dict[Any, Outcome] = {("after", style, "own"): outcome(took, "A")}
    for at, (aspect, right, met) in enumerate(tests):
        asked = [query(f"{at}-{n}", A) for n in range(len(right))]
        given = [query(f"{at}-given-{n}", A) for n in range(len(met))]
        probes.append(Probe(id=str(at), aspect=aspect, queries=tuple(asked), given=tuple(given), require=require))
        outcomes |= {("after", style, q.id): outcome(v, "A") for q, v in zip(asked, right, strict=True)}
        outcomes |= {("before", "cloze", q.id): outcome(v, "A") for q, v in zip(given, met, strict=True)}
    case = Case(id=name, edits=(Edit(id="e", statement="s"),), probes=tuple(probes))
    return CaseRecord(case=case, batch=name, outcomes=outcomes)


def values(record: CaseRecord, aspect: str, **options: Any) -> list[float | None]:
    return [value.value for value in found(record, aspect, **options)]


def found(record: CaseRecord, aspect: str, **options: Any) -> list[Value]:
    return [value for value in Ripple(config=RippleConfig(**options)).values(record) if value.aspect == aspect]


def scored(records: Sequence[CaseRecord], **options: Any) -> dict[str, Any]:
    (spec,) = ke_metrics()
    every = aggregate(Ripple(config=RippleConfig(**options)), spec, records, seed=0)
    return {score.aspect: score for score in every if not score.tags}


def test_mean_is_over_edits_and_excludes_failed_ones() -> None:
    """1 of 1, 0 of 3, a failed edit, an edit without an executed test: 50, not 25 and not 33.3."""
    first = edit("1", (RS, [R], [R]))
    second = edit("2", (RS, [W], [R]), (RS, [W], [R]), (RS, [W], []))
    failed = edit("3", (RS, [W], [R]), took=W)
    empty = edit("4", (RS, [R], [W]))
    scores = scored([first, second, failed, empty])
    assert (scores[RS].value, scores[RS].n) == (0.5, 2)
    assert scores[RS].skipped_because == {FAILED: 1, NOT_MET: 1}
    assert (scores["edit-success"].value, scores["edit-success"].n) == (0.75, 4)
    assert (scores["executed"].value, scores["executed"].n) == (4 / 5, 5)
    assert (scores[f"{RS}-each"].value, scores[f"{RS}-each"].n, scores[f"{RS}-each"].skipped) == (1 / 4, 4, 2)
    assert scored([first, second, failed, empty], edits="all")[RS].value == pytest.approx(1 / 3)


def test_average_is_the_unweighted_mean_of_six_criteria() -> None:
    """The published row of ROME with GPT-2 on RECENT, with another number of edits for each criterion."""
    row = {LG: 20.2, CI: 35.6, CII: 46.8, SA: 86.8, PV: 100.0, RS: 55.4}
    records = [
        edit(f"{aspect}-{n}", (aspect, [R if n < round(1000 * percent / 100) else W], []))
        for aspect, percent in row.items()
        for n in range(1000)
    ]
    scores = scored([*records, edit("more", (PV, [R], []))])
    assert scores["ripple"].value == pytest.approx(57.5 / 100, abs=0.0006)
    assert scores["ripple"].n == 6001


@pytest.mark.parametrize(
    ("met", "value", "why"),
    [([R, W], None, NOT_MET), ([], 1, ""), ([R, R], 1, ""), ([W], None, NOT_MET), ([S], None, NOT_MET)],
)
def test_execution_requires_every_condition(met: list[Verdict], value: float, why: str) -> None:
    (one,) = found(edit("1", (CI, [R], met)), CI)
    assert (one.value, one.skipped_because) == (value, why)
    assert values(edit("1", (CI, [R], met)), CI, conditions="ignored") == [1]


@pytest.mark.parametrize(("require", "passed"), [("any", 1), ("all", 0)])
def test_test_requires_any_or_all_queries(require: str, passed: float) -> None:
    """By tests as in the released code; by queries as in the paper, the average is one half."""
    one = edit("1", (LG, [W, R], []), require=require)
    assert values(one, LG, unit="tests") == [passed]
    assert values(one, LG, unit="queries") == [0.5]


@pytest.mark.parametrize(("targets", "value"), [("any", 1), ("all", 0)])
def test_option_targets(targets: Any, value: float) -> None:
    """Gold A and B; the output contains only B."""
    one = edit("1", (PV, [R], []))
    own, test = one.case.probes
    two = evolve(one.case, probes=(own, evolve(test, queries=(query("0-0", A, B),))))
    record = evolve(one, case=two, outcomes={**one.outcomes, ("after", "cloze", "0-0"): outcome(R, "B")})
    assert values(record, PV, targets=targets) == [value]
    both = evolve(record, outcomes={**record.outcomes, ("after", "cloze", "0-0"): outcome(R, "B", "A")})
    assert values(both, PV, targets=targets) == [1]


def test_criterion_without_tests_has_no_value() -> None:
    assert {value.aspect for value in Ripple().values(edit("1", (RS, [W], [])))} == {
        "edit-success", "executed", RS, f"{RS}-each",
    }  # fmt: skip


def test_test_without_named_answer_is_not_executed() -> None:
    """Published records ask for continents that Wikidata does not have."""
    one = edit("1", (LG, [U], [R]), (RS, [R], [U]))
    own, first, second = one.case.probes
    nameless = evolve(first, queries=(query("0-0"),)), evolve(second, given=(query("1-given-0"),))
    record = evolve(one, case=evolve(one.case, probes=(own, *nameless)))
    assert [found(record, aspect)[0].skipped_because for aspect in (LG, RS)] == [NO_NAME, NO_NAME]
    assert values(record, "executed") == [0, 0]


def aliased(met: Verdict) -> CaseRecord:
    """Return a test with another name of the subject. Its condition is the test itself before the edit."""
    one = edit("1", (SA, [R], [met]))
    own, test = one.case.probes
    condition = evolve(test.given[0], pre_edit=Gold(entities=(B,)))
    return evolve(one, case=evolve(one.case, probes=(own, evolve(test, given=(condition,)))))


@pytest.mark.parametrize(
    ("aliasing", "met", "why"),
    [("file", R, ""), ("file", S, NOT_MET), ("old", S, ""), ("old", R, NO_OLD), ("old", W, NO_OLD), ("none", W, "")],
)
def test_option_aliasing(aliasing: Any, met: Verdict, why: str) -> None:
    (one,) = found(aliased(met), SA, aliasing=aliasing)
    assert (one.value is None, one.skipped_because) == (bool(why), why)


def test_missing_request_has_a_reason() -> None:
    one = edit("1", (CI, [R], [R]))
    unasked = evolve(one, outcomes={key: o for key, o in one.outcomes.items() if key[0] == "after"})
    assert [value.skipped_because for value in found(unasked, CI)] == [NOT_PUT]
    assert [(value.value, value.skipped_because) for value in found(unasked, "executed")] == [(None, NOT_PUT)]
    unanswered = evolve(one, outcomes={key: o for key, o in one.outcomes.items() if key[2] != "0-0"})
    assert [value.skipped_because for value in found(unanswered, CI)] == [NOT_ON_RECORD]


def test_conditions_of_own_prompts_use_the_datasets_style() -> None:
    assert values(edit("1", (CI, [R], [R]), style="own"), CI) == [1]
    assert values(edit("1", (CI, [R], [W]), style="own"), CI) == [None]


def test_control_has_no_score() -> None:
    control = evolve(edit("1", (CI, [R], [R])), edited=False)
    assert {value.value for value in Ripple().values(control)} == {None}


def test_executed_tests_by_criterion() -> None:
    (spec,) = ke_metrics()
    scores = aggregate(Ripple(), spec, [edit("1", (CI, [R], [R]), (CI, [R], [W]), (RS, [W], []))], seed=0)
    left = {s.tags["criterion"]: (s.value, s.n) for s in scores if s.aspect == "executed" and s.tags}
    assert left == {"CI": (0.5, 2), "RS": (1.0, 1)}


def shared(*runs: Sequence[CaseRecord], **options: Any) -> Any:
    (spec,) = ke_metrics()
    (found_,) = shared_scores(Ripple(config=RippleConfig(**options)), spec, runs, seed=0)
    scores = [{score.aspect: score for score in own} for own in found_.scores]
    return found_, scores


def test_shared_queries_of_two_editors() -> None:
    """Two editors, three edits.

    Edit 1, LG: both runs execute the first test (two queries); only the first run executes the second. On the shared
    queries the first editor has 1 of 2, the second 2 of 2. Edit 1, RS: 0 and 1. Edit 2, RS: successful with the first
    editor only, so it is excluded. Edit 3, RS: 1 and 1. So LG is 50 and 100 over one edit, and RS is 50 and 100 over
    two. On its own queries, the first editor has LG 2/3 and RS 2/3.
    """
    first = [
        edit("1", (LG, [R, W], [R]), (LG, [R], [R]), (RS, [W], [])),
        edit("2", (RS, [R], [])),
        edit("3", (RS, [R], [R])),
    ]
    second = [
        edit("1", (LG, [R, R], [R]), (LG, [R], [W]), (RS, [R], [])),
        edit("2", (RS, [R], []), took=W),
        edit("3", (RS, [R], [R])),
    ]
    told, (one, two) = shared(first, second)
    assert (told.queries, told.own) == ({LG: 2, RS: 2}, (6, 4))
    assert [(of[LG].value, of[LG].n, of[RS].value, of[RS].n) for of in (one, two)] == [(0.5, 1, 0.5, 2), (1, 1, 1, 2)]
    assert [of["ripple"].value for of in (one, two)] == [0.5, 1.0]
    assert one[RS].skipped_because == two[RS].skipped_because == {NOT_IN_ALL: 1}
    assert scored(first)[LG].value == pytest.approx(2 / 3)
    assert scored(first)[RS].value == pytest.approx(2 / 3)


def test_query_missing_for_one_editor_is_not_shared() -> None:
    runs = [[edit("1", (CI, [R], []), (PV, [R], []), took=took)] for took in (R, R, W)]
    told, scores = shared(*runs)
    assert (told.queries, told.own) == ({}, (2, 2, 0))
    assert all(score.value is None for of in scores for score in of.values())


def test_shared_queries_across_styles() -> None:
    told, (one, two) = shared([edit("1", (CI, [R], []))], [edit("1", (CI, [W], []), style="own")])
    assert told.styles == ("cloze", "own")
    assert (one[CI].value, two[CI].value) == (1, 0)


def test_shared_tests() -> None:
    runs = ([edit("1", (LG, [R, W], []))], [edit("1", (LG, [W, W], []))])
    told, (one, two) = shared(*runs, unit="tests")
    assert (told.queries, one[LG].value, two[LG].value) == ({LG: 1}, 1, 0)


def test_figure_2() -> None:
    """The edit of the paper's figure 2: Prince gets another sibling, Nicholas Carminowe. The edit succeeds.

    A  LG: the sibling of Nicholas Carminowe: wrong.                                                             0
    B  CI: the occupations of Prince's siblings: one of two queries right.                                       1/2
    C  CII: siblings of the founder of Paisley Park Records: right. A second test is not executed, because the
       unedited model fails its condition.                                                                       1
    D  SA: siblings of Prince Roger Nelson: right.                                                               1
    E  PV: Tyka Nelson is still a sibling: right.                                                                1
    F  RS: his mother is still right, his place of birth is wrong: one of two tests.                             1/2

    The mean of the six is (0 + 1/2 + 1 + 1 + 1 + 1/2) / 6 = 2/3. Seven of eight tests are executed.
    """
    prince = edit(
        "Prince",
        (LG, [W], [R]),
        (CI, [R, W], [R]),
        (CII, [R], [R]),
        (CII, [W], [W]),
        (SA, [R], []),
        (PV, [R], [R]),
        (RS, [R], [R]),
        (RS, [W], [R]),
    )
    scores = scored([prince])
    assert [scores[aspect].value for aspect in (LG, CI, CII, SA, PV, RS)] == [0, 0.5, 1, 1, 1, 0.5]
    assert (scores["ripple"].value, scores["edit-success"].value) == (pytest.approx(2 / 3), 1)
    assert (scores["executed"].value, scores["executed"].n) == (7 / 8, 8)
    assert scores[f"{CII}-each"].skipped_because == {NOT_MET: 1}
