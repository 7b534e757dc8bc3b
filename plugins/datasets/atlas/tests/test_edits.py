"""The option ``view=edits``."""

from __future__ import annotations

from ke_core.plugin import LOCALITY, PROBABILITY, SINGLE_ASPECTS, distinct
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.cases import cases
from ke_plugin_atlas.dataset import PUBLISHED_EDITS, Atlas
from ke_plugin_atlas.edits import NEAR, edit_cases

FOUND = edit_cases()
EDITS = distinct(edit for case in cases() for edit in case.edits)


def test_every_distinct_edit_is_a_case() -> None:
    assert [case.id for case in FOUND] == [edit.id for edit in EDITS]
    assert len(FOUND) == PUBLISHED_EDITS["cases"]
    assert list(Atlas(config=AtlasConfig(view="edits")).cases()) == list(FOUND)


def test_each_edit_has_two_prompt_formats_and_ten_neighbors() -> None:
    for case in FOUND:
        assert tuple(probe.aspect for probe in case.probes) == SINGLE_ASPECTS
        near = {probe.aspect: probe.queries for probe in case.probes if probe.aspect.startswith(LOCALITY)}
        assert len(near[LOCALITY]) == len(near[LOCALITY + PROBABILITY]) == NEAR == 10
        assert {query.relation for query in near[LOCALITY]} == {case.edits[0].after.relation.key}
        assert case.edits[0].after.objects[0] not in {query.gold.entities[0] for query in near[LOCALITY]}


def test_subjects_of_neighbors_are_not_edited() -> None:
    for case in FOUND:
        for probe in case.probes:
            if probe.aspect == LOCALITY:
                for query in probe.queries:
                    assert query.form == "cloze"
                    assert not any(query.texts[0] == edit.cloze.prompt for edit in EDITS if edit.cloze)


def test_new_and_old_object_are_compared() -> None:
    for case in FOUND:
        scored = [q for p in case.probes if p.aspect == "efficacy" + PROBABILITY for q in p.queries]
        (edit,) = case.edits
        assert [q.continuations for q in scored] == [(f" {edit.added[0].label}", f" {edit.removed[0].label}")]
