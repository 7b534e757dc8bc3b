"""Types of errors against answers labeled manually."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    Answer,
    BadConfig,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Failure,
    Gold,
    Probe,
    Query,
    Verdict,
)
from ke_plugin_error_types import ErrorTypesConfig, build, ke_metrics
from ke_plugin_error_types.metric import NOT_MET, NOT_TAKEN, NOT_TOLD, RIGHT, TYPES, V1, ErrorTypes
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

R, W, S, U = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE


class TestErrorTypes(MetricContract):
    name = "error-types"


def query(name: str, right: str, pre_edit: str = "", *aliases: str) -> Query:
    old = Gold(entities=(Entity(label=pre_edit, aliases=aliases),)) if pre_edit else None
    return Query(id=name, texts=(f"The {name} is",), form="cloze", gold=gold(right), pre_edit=old)


def case(aspect: str = "multi-hop", asked: Query | None = None, given: tuple[Query, ...] = ()) -> Case:
    return Case(
        id="1",
        edits=(Edit(id="e", statement="s"),),
        probes=(
            Probe(id="own", aspect=EFFICACY, queries=(query("own", "Rome", "Paris"),), edits=("e",)),
            Probe(
                id="test",
                aspect=aspect,
                queries=(asked or query("test", "Italy", "France", "République"),),
                given=given,
            ),
        ),
    )


def record(text: str, verdict: Verdict = W, *, own: Verdict = R, of: Case | None = None, **rest) -> CaseRecord:
    outcomes = {("after", "direct", "own"): outcome("Rome", own), ("after", "direct", "test"): outcome(text, verdict)}
    return CaseRecord(case=of or case(), batch="0", outcomes=outcomes | rest.pop("more", {}), **rest)


def kinds(one: CaseRecord, aspect: str | None = None) -> set[str]:
    """Return the types with value 1, or the reasons of missing values."""
    last = aspect or one.case.probes[-1].aspect
    values = [v for v in ErrorTypes(phrases=V1).values(one) if v.tags["aspect"] == last]
    assert [v.aspect for v in values] == list(TYPES)
    if all(v.value is not None for v in values):
        assert sum(v.value or 0 for v in values) == 1
    return {v.skipped_because or v.aspect for v in values if v.value is None or v.value == 1}


@pytest.mark.parametrize(
    ("text", "verdict", "kind"),
    [
        ("France", S, "no-effect"),
        ("a town in France, I think", W, "no-effect"),
        ("the République", W, "no-effect"),
        ("unknown, perhaps in France", W, "no-effect"),
        ("not known", W, "abstaining"),
        ("I don\u2019t know.", W, "abstaining"),
        ("a mystery novel", W, "noise"),
        ("", W, "abstaining"),
        ("...", W, "abstaining"),
        ("The test is", W, "abstaining"),
        ("Francesca", W, "noise"),
        ("blue", W, "noise"),
    ],
)
def test_classification(text, verdict, kind) -> None:
    """The pre-edit answer is searched first, then abstaining phrases; everything else is noise."""
    assert kinds(record(text, verdict)) == {kind}


def test_fractions_are_of_wrong_answers_only() -> None:
    """Four answers: right, old, old, blue. Two of the three errors are no effect."""
    answers = [record("Italy", R), record("France", S), record("in France"), record("blue")]
    found = [v for one in answers for v in ErrorTypes(phrases=V1).values(one) if v.tags["aspect"] == "multi-hop"]
    numbers = {name: [v.value for v in found if v.aspect == name and v.value is not None] for name in TYPES}
    assert {name: sum(some) / len(some) for name, some in numbers.items()} == {
        "no-effect": pytest.approx(2 / 3),
        "abstaining": 0,
        "noise": pytest.approx(1 / 3),
    }
    assert kinds(answers[0]) == {RIGHT}


def test_unchanged_fact_has_no_pre_edit_answer() -> None:
    """RippleEdits, PV and RS: an error is abstaining or noise."""
    left = case("relation-specificity", query("test", "Italy"))
    assert kinds(record("France", of=left)) == {"noise"}
    assert kinds(record("unknown", of=left)) == {"abstaining"}


def test_consequence_without_pre_edit_answer_is_excluded() -> None:
    unknown = case("compositionality-1", query("test", "Italy"))
    assert kinds(record("France", of=unknown)) == {NOT_TOLD}
    assert kinds(record("not specified", of=unknown)) == {NOT_TOLD}


def test_tests_require_successful_edit_and_met_conditions() -> None:
    condition = query("given", "Tiber")
    test = case("compositionality-2", given=(condition,))
    met = {("before", "direct", "given"): outcome("Tiber", R)}
    failed = {("before", "direct", "given"): outcome("Seine")}
    assert kinds(record("blue", of=test, more=met)) == {"noise"}
    assert kinds(record("blue", of=test, more=failed)) == {NOT_MET}
    assert kinds(record("blue", of=test)) == {NOT_MET}
    assert kinds(record("blue", own=W, of=test, more=met)) == {NOT_TAKEN}
    assert kinds(record("blue", own=W)) == {"noise"}, "a multi-hop question does not require a successful edit"


def test_missing_answer_is_excluded_with_its_reason() -> None:
    gone = outcome(Failure(error="ServerGone", message="gone"), W)
    assert kinds(record("", more={("after", "direct", "test"): gone})) == {"there is no text answer: ServerGone"}
    assert kinds(record("x", U)) == {"the judge could not decide"}
    assert kinds(record("x", edited=False)) == {EDITS_WITHHELD}
    assert kinds(CaseRecord(case=case(), batch="0", skipped="refused")) == {"refused"}


def test_truncated_answer_is_classified_by_its_raw_text() -> None:
    """An answer without parsed text is not empty if its raw text is not."""
    cut = outcome(Answer(text="", raw="First, the tower", outcome="length"), W)
    assert kinds(record("", more={("after", "direct", "test"): cut})) == {"noise"}
    old = outcome(Answer(text="", raw="Well, France of course", outcome="unparsed"), W)
    assert kinds(record("", more={("after", "direct", "test"): old})) == {"no-effect"}


def test_phrases_file_has_one_phrase_per_line(tmp_path) -> None:
    file = tmp_path / "phrases.txt"
    file.write_text("keine Ahnung\n\n  weiß   nicht\n", encoding="utf-8")
    metric = build(ErrorTypesConfig(phrases=str(file)))
    assert metric == ErrorTypes(phrases=("keine Ahnung", "weiß nicht"))
    for bad in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(BadConfig, match="cannot read"):
            build(ErrorTypesConfig(phrases=str(bad)))
    file.write_text("\n!\n")
    with pytest.raises(BadConfig, match="contains no phrase"):
        build(ErrorTypesConfig(phrases=str(file)))


def test_unit_is_the_case_or_the_edit() -> None:
    values = list(ErrorTypes(phrases=V1).values(record("blue", own=W)))
    assert {(v.tags["aspect"], v.unit) for v in values} == {(EFFICACY, "e"), ("multi-hop", "1")}
    (spec,) = ke_metrics()
    assert set(spec.columns) == set(spec.labels) == set(TYPES)


def test_right_answer_is_not_a_pre_edit_answer() -> None:
    """A name that is right before and after the edit does not count as pre-edit answer."""
    both = query("test", "Italy", "Italy", "Italia")
    assert kinds(record("Italy", of=case(asked=evolve(both, gold=gold("Italy"))))) == {"noise"}


def test_option_of_tests_excludes_the_edits_own_questions() -> None:
    """RippleEdits, table 7, classifies only test queries."""
    failed = record("unknown", own=W)
    metrics = [build(ErrorTypesConfig(answers=answers)) for answers in ("all", "tests")]
    aspects = [{value.tags["aspect"] for value in metric.values(failed)} for metric in metrics]
    assert aspects == [{EFFICACY, "multi-hop"}, {"multi-hop"}]
