from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from ke_core.plugin import NO_SUBJECT, Cloze, Edit, Entity, Fact, FreeForm, UnsupportedEdit
from ke_plugin_hf.testing import tiny_tokenizer
from ke_testing.examples import CITY, FREE_FORM, MADRID, MOVE_GATE, MOVE_TOWER, ROME, TEXT_ONLY, TOWER, city_edit
from ke_weights.rewrites import as_rewrites, rewrite, unsupported_edits
from ke_weights.subject import target_ids


def after(*objects: str) -> Fact:
    return Fact(subject=TOWER, relation=CITY, objects=tuple(Entity(label=label) for label in objects))


UNFIT: dict[str, Any] = {
    "it has no cloze": TEXT_ONLY,
    "its subject is blank": evolve(MOVE_TOWER, cloze=Cloze(template="{} is located in", subject=" ")),
    "it has no new object": evolve(MOVE_TOWER, after=after()),
    "its new object is blank": evolve(MOVE_TOWER, after=after(" ")),
    "its new text is blank": evolve(FREE_FORM, free_form=FreeForm(prompt="Who?", target=" ")),
    "its prompt is blank": evolve(FREE_FORM, free_form=FreeForm(prompt=" ", target="me")),
    "its new text is the old one": evolve(FREE_FORM, free_form=FreeForm(prompt="Who?", target="me", old="me ")),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_unsupported_edits_are_listed_with_reason(reason: str) -> None:
    edit = UNFIT[reason]
    refused = unsupported_edits([MOVE_GATE, edit], tiny_tokenizer(), 100)
    assert list(refused) == [edit.id]
    assert reason in refused[edit.id]
    with pytest.raises(UnsupportedEdit, match=f"edit '{edit.id}'.*{reason}"):
        rewrite(edit)


def test_several_objects_are_joined_with_commas() -> None:
    assert rewrite(evolve(MOVE_TOWER, after=after("Rome", "Bonn"))).target == "Rome, Bonn"


def test_edit_without_new_fact_is_refused() -> None:
    assert "no new object" in unsupported_edits([evolve(MOVE_TOWER, after=None)], tiny_tokenizer(), 100)[MOVE_TOWER.id]


def test_contradictory_edits_name_each_other() -> None:
    other = city_edit(TOWER, ROME, MADRID)
    refused = unsupported_edits([MOVE_TOWER, MOVE_GATE, other, MOVE_TOWER], tiny_tokenizer(), 100)
    assert list(refused) == [other.id]
    assert f"{MOVE_TOWER.id!r} ({MOVE_TOWER.statement!r})" in refused[other.id]
    assert "'Eiffel Tower is located in'" in refused[other.id]


def test_edit_longer_than_the_context_is_refused() -> None:
    refused = unsupported_edits([MOVE_TOWER], tiny_tokenizer(), 3)
    assert "more than 3" in refused[MOVE_TOWER.id]


def test_error_of_a_long_edit_names_the_left_contexts() -> None:
    tokenizer = tiny_tokenizer()
    refused = unsupported_edits([MOVE_TOWER], tokenizer, 3, has_contexts=True)
    assert "more than 3, the model's context minus the longest left context" in refused[MOVE_TOWER.id]
    with pytest.raises(UnsupportedEdit, match="give shorter ones with the option templates"):
        as_rewrites([MOVE_TOWER], tokenizer, -30, has_contexts=True)


def test_edit_that_is_too_long_contradicts_no_later_edit() -> None:
    long = city_edit(TOWER, ROME, Entity(label="Rome " * 30))
    assert list(unsupported_edits([long, MOVE_TOWER], tiny_tokenizer(), 20)) == [long.id]


def test_edit_to_the_old_object_is_refused() -> None:
    same: Edit = evolve(MOVE_TOWER, before=MOVE_TOWER.after)
    assert unsupported_edits([same], tiny_tokenizer(), 100) == {same.id: "its new object 'Rome' is the old one"}
    spelled = [Entity(label=label, id="Q220") for label in ("Rome", "Roma")]
    old, new = (Fact(subject=TOWER, relation=CITY, objects=(one,)) for one in spelled)
    assert (
        "'Roma' is the old one"
        in unsupported_edits([evolve(same, before=old, after=new)], tiny_tokenizer(), 100)[same.id]
    )
    assert unsupported_edits([evolve(same, before=None)], tiny_tokenizer(), 100) == {}


def test_trailing_space_of_the_cloze_is_removed() -> None:
    spaced = evolve(MOVE_TOWER, cloze=Cloze(template="{} is located in ", subject="Eiffel Tower"))
    assert rewrite(spaced) == rewrite(MOVE_TOWER)
    assert rewrite(spaced).subject == "Eiffel Tower"


def test_subject_may_contain_braces() -> None:
    made = rewrite(evolve(MOVE_TOWER, cloze=Cloze(template="In {} it", subject="{} set")))
    assert made.subject == "{} set"
    assert made.row(tiny_tokenizer(), "So. {}").index > made.row(tiny_tokenizer()).index


@pytest.mark.parametrize("subject", ["Apple ", " Apple", " Apple "])
def test_spaces_around_the_subject_are_excluded(subject: str) -> None:
    """If offsets are untrimmed, the token after the subject begins with that space."""
    found = rewrite(evolve(MOVE_TOWER, cloze=Cloze(template="We say {}is in", subject=subject)))
    assert found.subject == "Apple"
    assert rewrite(evolve(MOVE_TOWER, cloze=Cloze(template="It is {}", subject=subject))).subject == "Apple"


def test_free_form_edit_has_prompt_and_target_but_no_span() -> None:
    made = rewrite(FREE_FORM)
    assert FREE_FORM.free_form is not None
    assert (made.prompt, made.target) == (FREE_FORM.free_form.prompt, FREE_FORM.free_form.target)
    assert made.span is None
    with pytest.raises(UnsupportedEdit, match=NO_SUBJECT):
        made.row(tiny_tokenizer())


def test_free_form_edit_is_refused_if_a_subject_is_needed() -> None:
    tokenizer = tiny_tokenizer()
    assert unsupported_edits([MOVE_TOWER, FREE_FORM], tokenizer, 100) == {}
    assert unsupported_edits([MOVE_TOWER, FREE_FORM], tokenizer, 100, needs_subject=True) == {FREE_FORM.id: NO_SUBJECT}
    with pytest.raises(UnsupportedEdit, match=NO_SUBJECT):
        as_rewrites([FREE_FORM], tokenizer, 100, needs_subject=True)


def test_target_may_have_several_lines() -> None:
    tokenizer = tiny_tokenizer()
    made = rewrite(evolve(MOVE_TOWER, after=after("Rome\nBonn")))
    assert made.target == "Rome\nBonn"
    ids = target_ids(tokenizer, made.prompt, made.target)
    assert tokenizer.decode(ids).strip() == "Rome\nBonn"


def test_target_at_the_start_of_a_line_has_no_space() -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.decode(target_ids(tokenizer, "A list:\n", "one\ntwo")) == "one\ntwo"
