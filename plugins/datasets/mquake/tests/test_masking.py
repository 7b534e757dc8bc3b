"""Masking on CF-3k, as in MQuAKE-Remastered."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from attrs import evolve

from ke_core.plugin import contradicting, distinct

AMBIGUOUS = {"Ford Mustang", "Forza Italia"}
# k: (cases with a masked statement, masked statements summed over cases), by id and by label
MASKED = {
    100: ((2026, 2717), (2027, 2720)),
    1000: ((2037, 3409), (2037, 3412)),
    2000: ((1529, 2518), (1531, 2524)),
    3000: ((998, 1398), (1000, 1404)),
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
    """The edits of some cases by subject and relation, for speed."""

    def __init__(self, edits) -> None:
        self.at = defaultdict(dict)
        for edit in distinct(edits):
            self.at[edit.after.subject.label, edit.after.relation.id][edit.id] = edit

    def near(self, path):
        return {id_: e for fact in path for id_, e in self.at[fact.subject.label, fact.relation.id].items()}


@pytest.mark.parametrize("k", MASKED)
def test_masking_by_id_and_by_label_differ_for_two_labels(cases, k) -> None:
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


def test_mquake_2002_contains_the_uncontaminated_cases(cases, cf_2002) -> None:
    bank = Bank(edit for case in cases for edit in case.edits)
    clean = [case for case in cases if not contradicting(case.facts_after, bank.near(case.facts_after))]
    assert clean == list(cf_2002.cases())


def test_mask_follows_the_chain_of_the_phase(cases, cf_3k, masked) -> None:
    by_id = {case.id: case for case in cases}
    bank = {edit.id: edit for case in cases for edit in case.edits}
    # the paper's example: case 323 makes Arabic the official language of the USA, where case 245 expects English
    (arabic,) = (e.id for e in by_id["323"].edits if e.after.objects[0].label == "Arabic")
    assert arabic in masked.hides(by_id["245"], bank, edited=False)
    assert masked.hides(by_id["245"], bank, edited=False) == contradicting(by_id["245"].facts_before, bank)
    assert arabic not in masked.hides(by_id["323"], bank, edited=True)
    assert cf_3k.hides(by_id["245"], bank, edited=False) == frozenset()
