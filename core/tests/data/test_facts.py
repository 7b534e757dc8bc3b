"""Facts, edits and the masking rule."""

from __future__ import annotations

import pytest

from ke_core.spec.facts import Cloze, Edit, Entity, Fact, Relation, contradicting, distinct
from ke_core.spec.prompts import Parse
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
def test_operation_is_derived(before: tuple[str, ...], after: tuple[str, ...], operation: str) -> None:
    assert edit(fact("s", *before), fact("s", *after)).operation == operation


def test_same_id_is_the_same_thing_under_another_name() -> None:
    old, new = Entity(label="UK", id="Q145"), Entity(label="United Kingdom", id="Q145")
    s, r = Entity(label="s"), MANAGES
    change = edit(Fact(subject=s, relation=r, objects=(old,)), Fact(subject=s, relation=r, objects=(new,)))
    assert change.operation == "none"


@pytest.mark.parametrize("template", ["no slot", "{} and {}"])
def test_a_cloze_has_exactly_one_slot(template: str) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Cloze(template=template, subject="x")


def test_e2_a_subject_that_stands_twice_or_holds_braces_keeps_its_span() -> None:
    cloze = Cloze(template="In Rome, {} is in", subject="Rome")
    assert cloze.prompt == "In Rome, Rome is in"
    assert cloze.span == (9, 13)
    assert Cloze(template="{} is", subject="a {} b").prompt == "a {} b is"


def test_distinct_keeps_the_first_mention_in_order() -> None:
    edits = [edit(None, None, name) for name in ("b", "a", "b", "c", "a")]
    assert [e.id for e in distinct(edits)] == ["b", "a", "c"]


def test_masking_hides_only_what_contradicts_the_path() -> None:
    """The toy example of MQuAKE-Remastered: only the edit of the hop on the path is hidden."""
    path = [fact("US", "English", relation=LANGUAGE)]
    bank = {
        "1": edit(None, fact("US", "Arabic", relation=LANGUAGE), "1"),
        "2": edit(None, fact("US", "X", relation=Relation(label="capital")), "2"),
        "3": edit(None, fact("US", "English", relation=LANGUAGE), "3"),
    }
    assert contradicting(path, bank) == {"1"}


def test_controls_and_the_unedited_model_are_expected_to_give_the_old_answer() -> None:
    new, old = Gold(entities=(Entity(label="new"),)), Gold(entities=(Entity(label="old"),))
    query = Query(id="q", texts=("?",), gold=new, stale=old)
    both = Probe(id="p", aspect="x", queries=(query,), phase="both")
    assert expected(query, both, "after", edited=True).gold == new
    assert expected(query, both, "after", edited=False).gold == old
    assert expected(query, both, "before", edited=True).gold == old
    assert expected(query, both, "before", edited=True).stale == new
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
def test_parse_cuts_the_answer_out(parse: Parse, text: str, answer: tuple[str, bool]) -> None:
    assert parse(text) == answer
