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
from ke_benchmarks.soundness import problems
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


def test_the_minority_takes_the_target_of_the_majority_and_what_follows_from_it(make):
    found = fix(conflicted(make))
    four = next(change for change in found.changes if change.case == "4" and change.kind == "changed")
    assert four.before == ("The country of Tower is Japan", "The capital of Japan is Tokyo", "answer: Tokyo")
    assert four.after == ("The country of Tower is Italy", "answer: Rome")
    # once fixed, 3 is the same as 2, and 4 as 1
    assert [case.id for case in found.cases] == ["1", "2"]
    assert [(change.case, change.kind) for change in found.changes] == [
        ("3", "changed"), ("3", "dropped"), ("4", "changed"), ("4", "dropped"), ("5", "dropped"),
    ]  # fmt: skip
    assert conflicts(found.cases) == duplicates(found.cases) == ()


def test_fixed_case_gets_the_edit_that_its_new_chain_meets(make):
    longer = make(
        "9", [("Ship", "country", "Spain"), *MAYOR[1:]], [("Ship", "country", "Japan"), ("Japan", "mayor", "Chie")], 0
    )
    ships = [make(n, [("Ship", "country", "Spain")], [("Ship", "country", "Italy")], 0) for n in ("7", "8")]
    other = make("6", MAYOR, [("Tower", "country", "Italy"), ("Italy", "mayor", "Bruno")], 0, 1)
    found = fix([other, *ships, longer])
    (fixed,) = (case for case in found.cases if case.id == "9")
    assert [edit.statement for edit in fixed.edits] == ["The country of Ship is Italy", "The mayor of Italy is Bruno"]
    assert fixed.tags["edits"] == "2"
    assert fixed.probes[-1].queries[0].gold.entities[0].label == "Bruno"
    assert [probe.id for probe in fixed.probes] == ["efficacy-1", "efficacy-2", "before", "after", "multi-hop"]
    assert not [problem for problem in problems([fixed]) if problem.rule != "chain"]
    (change,) = (change for change in found.changes if change.case == "9")
    assert change.kind == "changed"
    assert change.before[-1] == "answer: Chie"
    assert change.after[-1] == "answer: Bruno"


def test_case_with_an_unknown_new_chain_is_dropped_with_a_reason(make):
    ships = [make(n, [("Ship", "country", "Spain")], [("Ship", "country", "Italy")], 0) for n in ("7", "8")]
    lost = make("9", [("Ship", "country", "Spain"), ("Spain", "mayor", "Ana")],
                [("Ship", "country", "Japan"), ("Japan", "mayor", "Chie")], 0)  # fmt: skip
    found = fix([*ships, lost])
    change = next(change for change in found.changes if change.case == "9")
    assert change.kind == "dropped"
    assert change.why.endswith("no other case contains the mayor of Italy")


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
