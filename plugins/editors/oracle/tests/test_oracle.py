"""Answers and material of the oracle."""

from __future__ import annotations

import pytest

from ke_core.plugin import Answer, BadConfig, Failure, Material
from ke_plugin_oracle import ke_editors
from ke_plugin_oracle.editor import Oracle
from ke_testing.examples import MOVE_TOWER, QUESTIONS
from ke_testing.fakes import ScriptedModel, make_session

ANSWERS = {"answers": Material(value={f"case/{QUESTIONS[0].query}": "Rome"}, oracle=True)}


def said(*asks):
    model = ScriptedModel([])
    with Oracle().edit(make_session(model, material=ANSWERS), [MOVE_TOWER]) as edited:
        replies = edited.answer(asks)
    assert model.requests == []
    return replies


def test_answer_is_the_gold_answer() -> None:
    assert said(QUESTIONS[0]) == [Answer(text="Rome")]


def test_question_without_a_gold_answer_is_a_failure() -> None:
    assert isinstance(said(QUESTIONS[1])[0], Failure)


def test_spec_declares_gold_material() -> None:
    (spec,) = ke_editors()
    assert spec.oracle(spec.config()) == ("answers",)


def test_dataset_without_gold_answers_is_refused() -> None:
    with pytest.raises(BadConfig, match="no material 'answers'"), Oracle().edit(make_session(ScriptedModel([])), []):
        pass
