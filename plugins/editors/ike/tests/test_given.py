"""Sub-questions and answers from the dataset: each hop is a question of its own behind its own context."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, BadConfig, Failure, Likelihood, Material, SubQuestion
from ke_plugin_ike import IkeConfig, ke_editors
from ke_plugin_ike.editor import Ike
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, make_session

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")
GATE = SubQuestion(question="In which city is Brandenburg Gate?", answer="Berlin", statement="Berlin")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, GATE), "before": (GATE,)}}
TOWER = MOVE_TOWER.statement


def replay(*script, ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), value=VALUE, **options):
    """The reply and the model, whose script must be used up."""
    model = ScriptedModel(script)
    session = make_session(model, material={SUB_QUESTIONS: Material(value=value, oracle=True)})
    with Ike(config=IkeConfig(**{"decomposition": "oracle", "top": 1} | options)).edit(session, edits) as edited:
        (reply,) = edited.answer([ask])
    assert len(model.prompts) == len(script)
    return reply, model


def test_each_hop_is_looked_up_and_asked_behind_its_own_context() -> None:
    reply, model = replay(" Rome\nUpdate:", " Madrid")
    assert (reply.outcome, reply.text) == ("answered", "Madrid")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subquestion", CITY.question, (MOVE_TOWER.id,), "Rome"),
        ("subquestion", GATE.question, (MOVE_GATE.id,), "Madrid"),
        ("final", "Madrid", (), ""),
    ]
    assert model.prompts[0].split("\n\n")[32:] == [
        f"Update: {TOWER}\nText: {TOWER}",
        f"Text: {CITY.question} Paris",
        f"Update: {TOWER}\nText: {CITY.question}",
    ]
    assert "Rome" not in model.prompts[1].rpartition("Text: Brandenburg Gate")[2], "hops share no transcript"
    assert reply.raw == f"\n{CITY.question} Rome\n{GATE.question} Madrid"


def test_easyedit_shows_the_given_answer_too() -> None:
    _reply, model = replay(" Rome", " Madrid", profile="easyedit")
    assert model.prompts[0].split("\n\n")[16:] == [
        f"Text: {CITY.question} Paris", f"Update: {TOWER}\nText: {CITY.question}",
    ]  # fmt: skip


def test_where_no_fact_is_shown_the_given_answer_stands_without_a_call() -> None:
    reply, _model = replay(edits=())
    assert (reply.text, [step.answer for step in reply.steps]) == ("Berlin", ["Paris", "Berlin", ""])
    assert replay(ask=evolve(ASK, hidden=frozenset({MOVE_TOWER.id, MOVE_GATE.id})))[0].text == "Berlin"


def test_with_the_cases_own_facts_nothing_is_retrieved_and_a_control_has_none() -> None:
    reply, model = replay(" Rome", " Berlin", facts="own")
    assert [step.retrieved for step in reply.steps] == [(), (), ()]
    assert all(f"Update: {TOWER}\nText: In which" in prompt for prompt in model.prompts)
    assert replay(ask=evolve(ASK, own=()), facts="own")[0].text == "Berlin"


def test_a_hop_without_an_answer_is_unparsed_and_keeps_what_was_retrieved() -> None:
    reply, _model = replay("\nUpdate:")
    assert (reply.outcome, reply.text, reply.steps[-1].retrieved) == ("unparsed", "", (MOVE_TOWER.id,))


def test_questions_that_were_not_taken_apart_fail_and_scores_are_declined() -> None:
    assert isinstance(replay(value={})[0], Failure)
    assert replay(ask=Likelihood(id="l", case="c", prompt="p", continuations=(" a",)))[0].unscored


def test_v16_gold_is_used_only_where_the_options_name_it() -> None:
    (spec,) = ke_editors()
    assert spec.oracle(IkeConfig()) == ()
    assert spec.oracle(IkeConfig(decomposition="oracle")) == (SUB_QUESTIONS,)
    reply, model = replay(" Gualtieri", decomposition="model")
    assert [step.kind for step in reply.steps] == ["retrieved"]
    assert f"Text: {CITY.question} Paris" not in model.prompts[0]


def test_a_dataset_without_sub_questions_is_refused() -> None:
    editor = Ike(config=IkeConfig(decomposition="oracle"))
    with pytest.raises(BadConfig, match=r"ike\.decomposition=oracle: this dataset has no sub-questions"):
        editor.edit(make_session(ScriptedModel([])), [])
