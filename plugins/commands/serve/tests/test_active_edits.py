"""The active edits after a list of changes: no duplicates, no contradictions."""

from __future__ import annotations

import json

import pytest

from ke_core.app import SourceLine
from ke_plugin_serve.active_edits import ActiveEdits, Contradiction, kept_from, lines_of

HERE = SourceLine(file="a test")


def capital(country, city, name=""):
    return {"prompt": "The capital of {} is", "subject": country, "target_new": city, **({"id": name} if name else {})}


def bare(statement, name=""):
    return {"statement": statement, **({"id": name} if name else {})}


def kept(*raw):
    return [kept_from(one, HERE) for one in raw]


def in_force(bank):
    return {name: one.edit.statement for name, one in bank.edits.items()}


def after(before, more, *, replace=False):
    bank = ActiveEdits.of(kept(*before))
    change = bank.addition(kept(*more), replace=replace)
    bank.make(change)
    return in_force(bank), change.known


def test_a_reused_id_replaces_its_edit_and_the_contradicting_one():
    before = [capital("Peru", "Lima", "a"), capital("Chile", "Arica", "b")]
    with pytest.raises(Contradiction, match="edit a"):
        after(before, [capital("Chile", "Cusco", "a")])
    assert after(before, [capital("Chile", "Cusco", "a")], replace=True)[0] == {"a": "The capital of Chile is Cusco"}


@pytest.mark.parametrize(
    "again", [capital("Peru", "Cusco", "d"), capital("Peru", "Cusco"), bare("{}.", "d"), bare("{}")]
)
@pytest.mark.parametrize("first", [capital("Peru", "Cusco", "c"), bare("{} .", "c")])
@pytest.mark.parametrize("replace", [False, True])
def test_an_active_statement_is_known_regardless_of_id_and_form(first, again, replace):
    fact = "The capital of Peru is Cusco"
    first, again = (
        one | {"statement": one["statement"].format(fact)} if "statement" in one else one for one in (first, again)
    )
    assert after([first], [again], replace=replace) == ({"c": fact}, ("c",))
    assert len(after([], [first, again])[0]) == 1


@pytest.mark.parametrize(("prompt", "subject"), [("the capital of  {} is", "Peru"), ("The capital of {} is", "peru")])
def test_case_and_spaces_do_not_hide_a_contradiction(prompt, subject):
    other = {"prompt": prompt, "subject": subject, "target_new": "Lima", "id": "b"}
    with pytest.raises(Contradiction, match="edit a"):
        after([capital("Peru", "Cusco", "a")], [other])
    assert list(after([capital("Peru", "Cusco", "a")], [other], replace=True)[0]) == ["b"]


def test_a_replaced_edit_no_longer_contradicts():
    before = [capital("Peru", "Lima", "a")]
    more = [capital("Chile", "Arica", "a"), capital("Peru", "Cusco", "c")]
    assert after(before, more, replace=True)[0] == {
        "a": "The capital of Chile is Arica",
        "c": "The capital of Peru is Cusco",
    }
    with pytest.raises(Contradiction):
        after(before, more)


def test_a_replaced_edit_can_return_with_another_id():
    more = [capital("Chile", "Arica", "a"), capital("Peru", "Lima", "z")]
    assert after([capital("Peru", "Lima", "a")], more, replace=True)[0] == {
        "a": "The capital of Chile is Arica",
        "z": "The capital of Peru is Lima",
    }


def test_two_edits_of_one_request_that_differ_contradict_even_with_replace():
    for more in ([capital("Peru", "Lima"), capital("Peru", "Cusco")], [bare("x", "1"), bare("y", "1")]):
        with pytest.raises(Contradiction):
            after([], more, replace=True)


def test_an_edit_equal_to_a_statement_still_contradicts_others():
    before = [bare("The capital of Peru is Puno", "x"), capital("Peru", "Cusco", "y")]
    with pytest.raises(Contradiction, match="contradicts the edit y"):
        after(before, [capital("Peru", "Puno", "n")])
    assert after(before, [capital("Peru", "Puno", "n")], replace=True)[0] == {"n": "The capital of Peru is Puno"}


@pytest.mark.parametrize("end", ["", ".", "  "])
def test_an_edit_is_removed_by_statement_with_or_without_period(end):
    bank = ActiveEdits.of(kept(capital("the USA", "Washington D.C."), bare("Water is dry")))
    bank.make(bank.removal([f"The capital of the USA is  Washington D.C.{end}"]))
    assert list(in_force(bank).values()) == ["Water is dry"]


def test_free_form_edits_with_the_same_prompt_contradict():
    bees = {"prompt": "How do bees find flowers?", "target_new": "By color.\nBy scent.", "id": "a"}
    other = bees | {"target_new": "They do not.", "id": "b"}
    with pytest.raises(Contradiction, match="edit a"):
        after([bees], [other])
    assert after([bees], [other], replace=True)[0] == {"b": "How do bees find flowers? They do not."}
    bank = ActiveEdits.of(kept(bees))
    (again,) = ActiveEdits.of(kept(json.loads(lines_of(bank)))).edits.values()
    assert again.edit == bank.edits["a"].edit
    assert again.edit.target == "By color.\nBy scent."
