"""Answers of the parrot."""

from __future__ import annotations

from ke_core.plugin import Answer
from ke_plugin_parrot.editor import Parrot
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, TEXT_ONLY, question
from ke_testing.fakes import ScriptedModel, make_session

EDITS = [MOVE_TOWER, MOVE_GATE, TEXT_ONLY]
BOTH = (MOVE_TOWER.id, MOVE_GATE.id)


def said(ask, edits=EDITS):
    model = ScriptedModel([])
    with Parrot().edit(make_session(model), edits) as edited:
        (reply,) = edited.answer([ask])
    assert model.requests == []
    return reply


def test_answer_is_the_object_of_the_last_edit() -> None:
    assert said(question("Who is the mayor of the tower's city?", own=BOTH)) == Answer(text="Madrid")
    assert said(question("?", own=BOTH[::-1])) == Answer(text="Rome")


def test_order_is_that_of_the_case() -> None:
    assert said(question("?", own=BOTH), edits=EDITS[::-1]) == Answer(text="Madrid")


def test_control_gets_an_empty_answer() -> None:
    assert said(question("?", own=BOTH), edits=[]) == Answer(text="")
    assert said(question("?")) == Answer(text="")


def test_hidden_edit_is_not_used() -> None:
    assert said(question("?", own=BOTH, hidden=frozenset({MOVE_GATE.id}))) == Answer(text="Rome")


def test_edit_without_an_object_gives_an_empty_answer() -> None:
    assert said(question("?", own=(TEXT_ONLY.id,))) == Answer(text="")


def test_edits_are_added_and_removed() -> None:
    with Parrot().edit(make_session(ScriptedModel([])), [MOVE_TOWER]) as edited:
        edited.change(add=[MOVE_GATE])
        assert edited.answer([question("?", own=BOTH)]) == [Answer(text="Madrid")]
        edited.change(remove=[MOVE_GATE.id])
        assert edited.answer([question("?", own=BOTH)]) == [Answer(text="Rome")]
