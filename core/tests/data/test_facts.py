"""Facts, edits and the masking rule."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.spec.facts import Cloze, Edit, Entity, Fact, FreeForm, Relation, continued, contradicting, distinct
from ke_core.spec.prompts import Decoding, Parse, Prompt, with_room
from ke_core.spec.queries import Gold, Probe, Query, expected

MANAGES, LANGUAGE = Relation(label="manager"), Relation(label="official language", id="P37")


def fact(subject: str, *objects: str, relation: Relation = MANAGES) -> Fact:
    return Fact(subject=Entity(label=subject), relation=relation, objects=tuple(Entity(label=o) for o in objects))


def edit(before: Fact | None, after: Fact | None, name: str = "e") -> Edit:
    return Edit(id=name, statement="x", before=before, after=after)


def labels(entities: tuple[Entity, ...]) -> set[str]:
    return {entity.label for entity in entities}


def test_compke_example_of_added_removed_and_retained_objects() -> None:
    change = edit(fact("shop", "John", "Smith", "Dave"), fact("shop", "Smith", "Eden", "Keyes"))
    assert labels(change.added) == {"Eden", "Keyes"}
    assert labels(change.removed) == {"John", "Dave"}
    assert labels(change.retained) == {"Smith"}
    assert change.operation == "mixed"


@pytest.mark.parametrize(
    ("before", "after", "operation"),
    [
        (("a",), ("b",), "replace"),
        (("a",), ("a", "b"), "add"),
        (("a", "b"), ("a",), "delete"),
        (("a",), (), "delete"),
        (("a",), ("a",), "none"),
        (("a", "b"), ("a", "c"), "mixed"),
    ],
)
def test_operation_follows_from_old_and_new_objects(
    before: tuple[str, ...], after: tuple[str, ...], operation: str
) -> None:
    assert edit(fact("s", *before), fact("s", *after)).operation == operation


def test_same_id_is_the_same_entity_under_another_name() -> None:
    old, new = Entity(label="UK", id="Q145"), Entity(label="United Kingdom", id="Q145")
    s, r = Entity(label="s"), MANAGES
    change = edit(Fact(subject=s, relation=r, objects=(old,)), Fact(subject=s, relation=r, objects=(new,)))
    assert change.operation == "none"


@pytest.mark.parametrize("template", ["no slot", "{} and {}"])
def test_a_cloze_has_exactly_one_slot(template: str) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Cloze(template=template, subject="x")


def test_e2_repeated_subject_or_subject_with_braces_keeps_its_span() -> None:
    cloze = Cloze(template="In Rome, {} is in", subject="Rome")
    assert cloze.prompt == "In Rome, Rome is in"
    assert cloze.span == (9, 13)
    assert Cloze(template="{} is", subject="a {} b").prompt == "a {} b is"


def test_distinct_keeps_the_first_mention_in_order() -> None:
    edits = [edit(None, None, name) for name in ("b", "a", "b", "c", "a")]
    assert [e.id for e in distinct(edits)] == ["b", "a", "c"]


def test_masking_hides_only_edits_that_contradict_the_path() -> None:
    """The toy example of MQuAKE-Remastered: only the edit of the hop on the path is hidden."""
    path = [fact("US", "English", relation=LANGUAGE)]
    bank = {
        "1": edit(None, fact("US", "Arabic", relation=LANGUAGE), "1"),
        "2": edit(None, fact("US", "X", relation=Relation(label="capital")), "2"),
        "3": edit(None, fact("US", "English", relation=LANGUAGE), "3"),
    }
    assert contradicting(path, bank) == {"1"}


def test_expected_answer_of_controls_and_of_the_unedited_model_is_the_old_one() -> None:
    new, old = Gold(entities=(Entity(label="new"),)), Gold(entities=(Entity(label="old"),))
    query = Query(id="q", texts=("?",), gold=new, pre_edit=old)
    both = Probe(id="p", aspect="x", queries=(query,), phase="both")
    assert expected(query, both, "after", edited=True).gold == new
    assert expected(query, both, "after", edited=False).gold == old
    assert expected(query, both, "before", edited=True).gold == old
    assert expected(query, both, "before", edited=True).pre_edit == new
    before = Probe(id="p", aspect="x", queries=(query,), phase="before")
    assert expected(query, before, "before", edited=True).gold == new


@pytest.mark.parametrize(
    ("parse", "text", "answer"),
    [
        (Parse(), " Paris\nQ: next", ("Paris", True)),
        (Parse(after="Answer:"), "thoughts\nAnswer: Rome\nmore", ("Rome", True)),
        (Parse(after="Answer:"), "Answer: a\nAnswer: b", ("b", True)),
        (Parse(after="Answer:"), "no marker", ("", False)),
        (Parse(), "\n\n", ("", False)),
        (Parse(until=""), "two\nlines", ("two\nlines", True)),
    ],
)
def test_parse_extracts_the_answer(parse: Parse, text: str, answer: tuple[str, bool]) -> None:
    assert parse(text) == answer


FREE = FreeForm(prompt="How do bees find flowers? ", target="By color.\nBy scent.\n", old="They do not.")


def test_edit_of_each_form_has_a_prompt_and_a_target() -> None:
    free = Edit(id="e", statement="x", free_form=FREE)
    assert (free.prompt, free.target) == ("How do bees find flowers?", "By color.\nBy scent.")
    assert (free.old_target, free.names_subject) == ("They do not.", False)
    cloze = Cloze(template="{} is run by ", subject="shop")
    named = Edit(id="e", statement="x", before=fact("shop", "John"), after=fact("shop", "Ada ", "Eve"), cloze=cloze)
    assert (named.prompt, named.target) == ("shop is run by", "Ada, Eve")
    assert (named.old_target, named.names_subject) == ("John", True)
    bare = Edit(id="e", statement="x")
    assert (bare.prompt, bare.target, bare.old_target, bare.names_subject) == ("", "", "", False)


@pytest.mark.parametrize("field", ["before", "after", "cloze"])
def test_a_free_form_stands_alone(field: str) -> None:
    value = Cloze(template="{} is", subject="shop") if field == "cloze" else fact("shop", "John")
    with pytest.raises(ValueError, match="edit 'e' has a free form, and a cloze or a fact"):
        Edit(id="e", statement="x", free_form=FREE, **{field: value})


def test_target_follows_its_prompt_after_a_space_or_line_break() -> None:
    assert continued("The capital is", " Rome ") == " Rome"
    assert continued("A list:\n", "one\ntwo\n") == "one\ntwo"
    assert continued("Q: 法国的首都是什么\uff1f\nA:", "巴黎") == " 巴黎"
    assert continued("法国的首都是什么\uff1f", "巴黎") == "巴黎"
    assert continued("法国的首都是什么\uff1f", "Paris") == " Paris"
    assert continued("The city called in Chinese", "巴黎") == " 巴黎"
    assert continued("เมืองหลวงของฝรั่งเศสคือ", "ปารีส") == "ปารีส"


@pytest.mark.parametrize(
    "prompt",
    [
        "他出生于哪一年\uff1f",
        "それは何ですか\uff1f",
        "คืออะไร",
        "谁写了?",
        "谁领导iPhone\uff1a",
        "这本书是",
        "这本书是\u201c",
    ],
)
def test_no_space_joins_digits_marks_and_mixed_names_to_a_script_without_spaces(prompt: str) -> None:
    for target in ("1912年", "1912", "《X档案》", "《Hamlet》", "\u201cHamlet\u201d", "(Paris)", "X档案", "DNA聚合酶"):
        assert continued(prompt, target) == target
    assert continued("The year was", "1912年") == " 1912年"
    for target in ("Paris", "Ångström", "서울"):
        assert continued(prompt, target) == f" {target}"


SHORT = Prompt(text="Q: Who?\nA:", decoding=Decoding(max_tokens=32, stop=("\n", "\nQ:")))


def test_short_answers_of_one_line_leave_the_prompt_unchanged() -> None:
    assert with_room(SHORT, ["Rome", "a b c d e\n"], until="\nQ:") is SHORT


def test_token_limit_of_long_answers_does_not_depend_on_their_length() -> None:
    made = {with_room(SHORT, ["word " * count]) for count in (21, 50, 400)}
    assert made == {evolve(SHORT, decoding=evolve(SHORT.decoding, max_tokens=512))}
    roomy = evolve(SHORT, decoding=Decoding(max_tokens=600))
    assert with_room(roomy, ["word " * 50]).decoding.max_tokens == 600


def test_multi_line_answer_ends_at_the_next_question() -> None:
    made = with_room(SHORT, ["one\ntwo"], until="\nQ:")
    assert (made.decoding, made.several_lines) == (Decoding(max_tokens=512, stop=("\nQ:",)), True)
    assert made.parse(" one\ntwo\nQ: next") == ("one\ntwo", True)
