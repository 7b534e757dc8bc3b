"""Fixes, selections and missing information, on small constructed cases."""

import pytest

from ke_benchmarks.audit import (
    Audit,
    RuleAgreement,
    agreement,
    conflicts,
    contamination,
    duplicates,
    fix,
    missing,
    select,
)
from ke_benchmarks.audit.missing import stem
from ke_benchmarks.report import flagged_cases
from ke_core.plugin import BadData

OLD = [("Tower", "country", "France"), ("France", "capital", "Paris")]
TO_ITALY = [("Tower", "country", "Italy"), ("Italy", "capital", "Rome")]
TO_JAPAN = [("Tower", "country", "Japan"), ("Japan", "capital", "Tokyo")]
MAYOR = [("Tower", "country", "France"), ("France", "mayor", "Anne")]


def conflicted(make, *more):
    return [
        make("1", OLD, TO_ITALY, 0),
        make("2", MAYOR, [("Tower", "country", "Italy"), ("Italy", "mayor", "Bruno")], 0, 1),
        make("3", MAYOR, [("Tower", "country", "Japan"), ("Japan", "mayor", "Chie")], 0, 1),
        make("4", OLD, TO_JAPAN, 0, 1),
        make("5", OLD, TO_ITALY, 0),
        *more,
    ]


def test_minority_of_a_conflict_and_duplicates_are_dropped(make):
    found = fix(conflicted(make))
    assert [case.id for case in found.cases] == ["1", "2"]
    assert [(one.case, one.why) for one in found.dropped] == [
        ("3", "conflicting edits: Tower, country: 3 edits say Italy"),
        ("4", "conflicting edits: Tower, country: 3 edits say Italy"),
        ("5", "the same as case 1"),
    ]
    assert found.dropped[1].edits == ("The country of Tower is Japan", "The capital of Japan is Tokyo")
    assert conflicts(found.cases) == duplicates(found.cases) == ()


def test_selection_is_maximal_and_clean_by_every_rule(make):
    cases = [*conflicted(make), make("far", [("Moon", "mayor", "Ann")], [("Moon", "mayor", "Bo")], 0)]
    found = select(cases)
    ids = [case.id for case in found.cases]
    assert len(ids) == found.bound == 3
    assert "far" in ids
    for rule in ("question", "id", "id-first", "majority"):
        assert contamination(found.cases, ids, rule).on_edited == ()
    assert conflicts(found.cases) == duplicates(found.cases) == ()


def test_question_without_a_relation_of_its_chain_is_flagged(make):
    cases = [
        make(str(n), [(f"Place{n}", "country", "France"), ("France", relation, "X")],
             [(f"Place{n}", "country", "Italy"), ("Italy", relation, "Y")], 0)
        for n, relation in enumerate(["capital", "mayor"] * 10)
    ]  # fmt: skip
    short = make("short", OLD, TO_ITALY, 0, asked="What is the capital of Tower?")
    strange = make("strange", OLD, TO_ITALY, 0, asked="What is the capital of the country of it?")
    found, asked = missing([*cases, short, strange])
    assert asked == 22
    assert {one.case: one.pieces for one in found} == {"short": ("country",), "strange": ("Tower",)}
    corrected = [*cases, make("77", OLD, TO_ITALY, 0)]
    assert agreement([*cases, short], [one for one in found if one.case == "short"], corrected) == RuleAgreement(
        compared=21, both=1, flagged=1, rewritten=1
    )


@pytest.mark.parametrize(("word", "stem_"), [("citizenship", "citizen"), ("created", "creat"), ("its", "its")])
def test_stems(word, stem_):
    assert stem(word) == stem_


def test_every_flagged_case_is_listed_with_its_reason(make):
    cases = [*conflicted(make), make("6", [("Rome", "mayor", "Ed"), OLD[0]], [("Rome", "mayor", "Flo"), OLD[0]], 0)]
    told = [line.plain for line in flagged_cases(Audit.of("d", cases, edited=(6,), rule="question"))]
    assert told[0] == (
        "case 6: contaminated while edited, 6 edited, hop 2: 'The country of Tower is France' is rewritten by "
        "case 1, 2, 5 and 2 more"
    )
    assert "case 3: conflicting edits: The country of Tower is Japan, which other edits rewrite differently" in told
    assert "case 5: duplicate of case 1" in told


def test_dataset_that_cannot_be_audited_is_rejected_with_the_reason(make):
    from attrs import evolve

    whole = make("1", OLD, TO_ITALY, 0)
    bare = evolve(whole, edits=tuple(evolve(edit, before=None, after=None) for edit in whole.edits))
    for cases, words in (
        ([], "has no cases"),
        ([evolve(whole, edits=())], "has no edits"),
        ([bare], "sentences without facts"),
        ([evolve(whole, facts_before=(), facts_after=())], "has no paths"),
    ):
        with pytest.raises(BadData, match=words):
            Audit.of("d", cases, rule="question")
    half = evolve(whole, id="2", facts_before=())
    assert Audit.of("d", [whole, half], rule="question").pathless == 1
