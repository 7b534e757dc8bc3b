"""Contamination and its cure: MQuAKE-Remastered's audit and dynamic masking on CF-3k."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from attrs import evolve

from ke_core.plugin import contradicting, distinct
from ke_core.spec.facts import EditBank

AMBIGUOUS = {"Ford Mustang", "Forza Italia"}
# k: (cases with a masked statement, masked statements summed over cases), by id and by label
MASKED = {
    100: ((2026, 2717), (2027, 2720)),
    1000: ((2037, 3409), (2037, 3412)),
    2000: ((1529, 2518), (1531, 2524)),
    3000: ((998, 1398), (1000, 1404)),
}
# k: (cases, hops) of unedited and of edited victims, by the rule of equal question texts
CONTAMINATED = {
    1: ((0, 0), (0, 0)),
    100: ((2013, 2706), (14, 14)),
    1000: ((1772, 3075), (265, 337)),
    2000: ((910, 1664), (619, 856)),
    3000: ((0, 0), (998, 1400)),
}


def sample(k):
    random.seed(100)
    return {str(n) for n in random.sample(range(1, 3001), k)}


def path_of(case, edited):
    return case.facts_after if edited else case.facts_before


def without_ids(facts):
    return tuple(
        evolve(fact, subject=evolve(fact.subject, id=None), objects=tuple(evolve(o, id=None) for o in fact.objects))
        for fact in facts
    )


class Bank:
    """The edits of some cases, found by what a chain could share with them, so that a test takes seconds."""

    def __init__(self, edits) -> None:
        self.at = defaultdict(dict)
        for edit in distinct(edits):
            self.at[edit.after.subject.label, edit.after.relation.id][edit.id] = edit

    def near(self, path):
        return {id_: e for fact in path for id_, e in self.at[fact.subject.label, fact.relation.id].items()}


@pytest.mark.parametrize("k", MASKED)
def test_m5_masking_by_id_and_by_label_agree_but_for_two_ambiguous_labels(cases, k) -> None:
    chosen = sample(k)
    bank = Bank(edit for case in cases if case.id in chosen for edit in case.edits)
    by_id, by_label = [], []
    for case in cases:
        path = path_of(case, case.id in chosen)
        near = bank.near(path)
        bare = {
            id_: evolve(e, after=without_ids((e.after,))[0], before=without_ids((e.before,))[0])
            for id_, e in near.items()
        }
        ids, labels = contradicting(path, near), contradicting(without_ids(path), bare)
        by_id.append(len(ids))
        by_label.append(len(labels))
        assert {near[id_].after.subject.label for id_ in ids ^ labels} <= AMBIGUOUS
        if case.id in chosen:
            assert not ids & {edit.id for edit in case.edits}
    found = tuple((sum(map(bool, n)), sum(n)) for n in (by_id, by_label))
    assert found == MASKED[k]


def scan(path, bank):
    """The definition, edit by edit through the whole bank."""
    held = {(fact.subject.key, fact.relation.key): {o.key for o in fact.objects} for fact in path}
    return frozenset(
        edit.id
        for edit in bank.values()
        if held.get((edit.after.subject.key, edit.after.relation.key), new := {o.key for o in edit.after.objects})
        != new
    )


@pytest.mark.parametrize("k", [100, 3000])
def test_the_index_finds_what_a_scan_of_the_whole_bank_finds(cases, k) -> None:
    chosen = sample(k)
    edits = distinct(edit for case in cases if case.id in chosen for edit in case.edits)
    plain, bank = {edit.id: edit for edit in edits}, EditBank(edits)
    assert dict(bank) == plain
    for case in cases:
        path = path_of(case, case.id in chosen)
        assert contradicting(path, bank) == scan(path, plain)
    assert contradicting(cases[0].facts_before, plain) == scan(cases[0].facts_before, plain)


@pytest.mark.parametrize("k", CONTAMINATED)
def test_m6_the_audit_finds_the_published_contamination(cases, k) -> None:
    chosen = sample(k)
    new = defaultdict(set)
    for edit in (edit for case in cases if case.id in chosen for edit in case.edits):
        new[edit.question].add(edit.after.objects[0].label)
    found = {True: [0, 0], False: [0, 0]}
    for case in cases:
        edited = case.id in chosen
        (probe,) = (p for p in case.probes if p.aspect == "instance" and p.asked("after" if edited else "before"))
        own = {edit.question for edit in case.edits} if edited else set()
        bad = sum(
            query.texts[0] in new
            and query.texts[0] not in own
            and new[query.texts[0]] != {query.gold.entities[0].label}
            for query in probe.queries
        )
        found[edited][0] += bad > 0
        found[edited][1] += bad
    assert (tuple(found[False]), tuple(found[True])) == CONTAMINATED[k]


def test_m6_mquake_2002_is_what_the_audit_leaves(cases, cf_2002) -> None:
    bank = Bank(edit for case in cases for edit in case.edits)
    clean = [case for case in cases if not contradicting(case.facts_after, bank.near(case.facts_after))]
    assert clean == list(cf_2002.cases())


def test_only_a_masked_dataset_hides_and_it_follows_the_path_of_the_moment(cases, cf_3k, masked) -> None:
    by_id = {case.id: case for case in cases}
    bank = {edit.id: edit for case in cases for edit in case.edits}
    # the paper's example: case 323 makes Arabic the official language of the USA, where case 245 expects English
    (arabic,) = (e.id for e in by_id["323"].edits if e.after.objects[0].label == "Arabic")
    assert arabic in masked.hides(by_id["245"], bank, edited=False)
    assert masked.hides(by_id["245"], bank, edited=False) == contradicting(by_id["245"].facts_before, bank)
    assert arabic not in masked.hides(by_id["323"], bank, edited=True)
    assert cf_3k.hides(by_id["245"], bank, edited=False) == frozenset()
