"""``ke audit`` on the published CF-3k: the numbers of MQuAKE-Remastered, conflicts, fixes and selections."""

from __future__ import annotations

import time

import pytest

from ke_benchmarks.audit import RULES, conflicts, contamination, draw, duplicates, fix, missing, named, select, tally
from ke_benchmarks.soundness import problems
from ke_core.plugin import contradicting, distinct
from ke_core.spec.facts import EditBank

K = (1, 100, 1000, 2000, 3000)
UNEDITED = ((0, 0), (2013, 2706), (1772, 3075), (910, 1664), (0, 0))
# rule: contaminated unedited cases that differ from the default rule, contaminated sub-questions of edited cases
RULE_FIGURES = {
    "question": ({}, (14, 337, 856, 1400)),
    "id": ({100: (2012, 2703), 1000: (1772, 3073)}, (14, 336, 854, 1398)),
    "question-drop": ({2000: (910, 1663)}, (14, 337, 855, 1399)),
    "id-first": ({}, (14, 337, 855, 1399)),
    "majority": ({}, (14, 337, 854, 1399)),
}
EDITED_CASES = (14, 265, 619, 998)


@pytest.mark.parametrize("rule", RULES)
def test_contamination_by_rule(cases, rule) -> None:
    other, subquestions = RULE_FIGURES[rule]
    found = {k: contamination(cases, draw(cases, k, 100), rule) for k in K}
    assert {k: tally(one.on_unedited) for k, one in found.items()} == {**dict(zip(K, UNEDITED, strict=True)), **other}
    edited = ((0, 0), *zip(EDITED_CASES, subquestions, strict=True))
    assert tuple(tally(one.on_edited) for one in found.values()) == edited


def test_rule_majority_gives_the_published_numbers(cf_3k, cases) -> None:
    printed = cf_3k.info().audit
    for k in K:
        found = contamination(cases, draw(cases, k, printed.seed), "majority")
        assert (tally(found.on_unedited), tally(found.on_edited)) == (printed.on_unedited[k], printed.on_edited[k])
    assert printed.duplicates == len(duplicates(cases))


def test_view_edits_has_no_published_audit(make, published) -> None:
    assert make("mquake-cf-3k", data_dir=str(published.parent), view="edits").info().audit is None


def test_one_question_has_two_targets_in_three_cases(cases) -> None:
    (conflict,) = conflicts(cases)
    assert {named(fact): ids for fact, ids in conflict.targets} == {
        "Fiat S.p.A.": ("231", "2707"),
        "Nintendo": ("2566",),
    }
    assert conflict.majority.subject.label == "Ford Mustang"


def test_four_pairs_of_duplicates(cases) -> None:
    assert duplicates(cases) == (("43", "875"), ("126", "887"), ("631", "940"), ("948", "985"))


def test_missing_piece_of_the_papers_example(cases) -> None:
    found, asked = missing(cases)
    assert asked == 3000
    assert {one.case: one.pieces for one in found}["546"] == ("employer",)
    assert len(found) == 514  # published: 672, found manually; which ones is unknown


def test_one_conflict_remains_without_contaminated_cases(cases) -> None:
    victims = {hit.case for hit in contamination(cases, [case.id for case in cases]).on_edited}
    kept = [case for case in cases if case.id not in victims]
    assert len(kept) == 2002
    assert contamination(kept, [case.id for case in kept]).on_edited == ()
    assert [conflict.cases for conflict in conflicts(kept)] == [("231", "2566")]


def test_fix_drops_duplicates_and_a_case_that_cannot_be_rebuilt(cases) -> None:
    found = fix(cases)
    assert [(change.case, change.kind) for change in found.changes] == [
        (case, "dropped") for case in ("875", "887", "940", "985", "2566")
    ]
    assert found.changes[-1].why.endswith("no other case contains the country of citizenship of Jean-François Kahn")
    assert conflicts(found.cases) == duplicates(found.cases) == ()
    assert [one for one in problems(found.cases) if one.level == "error"] == [
        one for one in problems(cases) if one.level == "error"
    ]


def test_selection_is_clean_by_every_rule(cases) -> None:
    began = time.perf_counter()
    found = select(cases)
    assert time.perf_counter() - began < 60
    ids = [case.id for case in found.cases]
    assert (len(ids), found.bound, len(cases) - found.victims) == (2278, 2279, 1997)
    for rule in RULES:
        assert contamination(found.cases, ids, rule).on_edited == ()
    assert conflicts(found.cases) == conflicts(found.cases, "id") == duplicates(found.cases) == ()
    assert [one.id for one in select(cases).cases] == ids


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "controls"])
def test_masking_hides_exactly_the_contradicting_edits(cases, edited) -> None:
    """Compare the indexed lookup with a scan of every edit for every case."""
    edits = distinct(edit for case in cases for edit in case.edits)
    bank = EditBank(edits)
    triples = [(edit.id, edit.after.subject.id, edit.after.relation.id, edit.after.objects[0].id) for edit in edits]
    for case in cases:
        path = [
            (hop.subject.id, hop.relation.id, hop.objects[0].id)
            for hop in (case.facts_after if edited else case.facts_before)
        ]
        starts = {subject for subject, _relation, _object in path}
        against = {
            name
            for name, subject, relation, new in triples
            if subject in starts
            if any((subject, relation) == (s, r) and new != o for s, r, o in path)
        }
        hidden = contradicting(path := (case.facts_after if edited else case.facts_before), bank)
        assert hidden == against, path
        if edited:
            assert not hidden & {edit.id for edit in case.edits}
