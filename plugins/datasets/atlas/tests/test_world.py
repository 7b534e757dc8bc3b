"""All edits are in one counterfactual world, so ``--batch all`` is well defined."""

from __future__ import annotations

import pytest

from ke_core.plugin import Edit, contradicting, distinct
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.cases import cases
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_atlas.world import CAPITAL, CAPITAL_OF, atlas_world, held_out
from ke_testing.process import under_hash_seeds

CASES = cases()
BANK: dict[str, Edit] = {edit.id: edit for edit in distinct(edit for case in CASES for edit in case.edits)}


def test_subject_and_relation_have_one_new_object() -> None:
    new: dict[tuple[str, str], str] = {}
    for edit in BANK.values():
        assert edit.after is not None
        key = (edit.after.subject.key, edit.after.relation.key)
        assert new.setdefault(key, edit.after.objects[0].key) == edit.after.objects[0].key
    assert len({edit.statement for edit in BANK.values()}) == len(BANK) == len(new)


def test_no_case_depends_on_a_fact_that_another_case_edits() -> None:
    assert [case.id for case in CASES if contradicting(case.facts_after, BANK)] == []


def test_masking_hides_edits_from_controls_only() -> None:
    plain, masked = Atlas(config=AtlasConfig()), Atlas(config=AtlasConfig(mask=True))
    for case in CASES:
        assert masked.hides(case, BANK, edited=True) == frozenset()
        assert masked.hides(case, BANK, edited=False) == contradicting(case.facts_before, BANK)
        assert plain.hides(case, BANK, edited=False) == frozenset()
    assert any(masked.hides(case, BANK, edited=False) for case in CASES)


def test_no_case_depends_on_the_inverse_of_an_edit() -> None:
    inverse = {CAPITAL: CAPITAL_OF, CAPITAL_OF: CAPITAL}
    backwards = set()
    for edit in BANK.values():
        assert edit.after is not None
        if edit.after.relation.key in inverse:
            objects = (*edit.added, *edit.removed)
            backwards |= {(entity.key, inverse[edit.after.relation.key]) for entity in objects}
    assert backwards
    rests = {(f.subject.key, f.relation.key) for case in CASES for f in (*case.facts_before, *case.facts_after)}
    assert not rests & backwards


def test_no_case_uses_held_out_entities() -> None:
    for case in CASES:
        for fact in (*case.facts_before, *case.facts_after):
            assert not held_out(fact.subject.key)
            assert not held_out(fact.objects[0].key)


def test_edits_of_cases_are_edits_of_the_world() -> None:
    world = atlas_world()
    for edit in BANK.values():
        assert edit.after is not None
        assert world.edits[edit.after.subject.key, edit.after.relation.key] == edit.after.objects[0].key


@pytest.mark.integration
def test_hash_seed_has_no_effect() -> None:
    code = (
        "from ke_plugin_atlas import AtlasConfig; from ke_plugin_atlas.dataset import Atlas; "
        "import hashlib, sys; from ke_core.spec.codec import canonical, to_json; a = Atlas(config=AtlasConfig()); "
        "text = canonical([to_json(c) for c in a.cases()]); "
        "assert not {'torch', 'numpy', 'transformers'} & set(sys.modules); "
        "print(hashlib.sha256(text.encode()).hexdigest(), a.info().sha256)"
    )
    seen = under_hash_seeds(code)
    assert seen[0] == seen[1]
    assert seen[0].split()[1] == Atlas(config=AtlasConfig()).info().sha256
