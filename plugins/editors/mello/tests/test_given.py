"""Sub-questions and tentative answers from the dataset: the method retrieves and weighs, and nothing else."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, BadConfig, Failure, Likelihood, Material, SubQuestion
from ke_plugin_mello import MelloConfig, ke_editors
from ke_plugin_mello.editor import Mello
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, make_session

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")
NEW = SubQuestion(question="Who is the mayor of Rome?", answer="Gualtieri", statement="Gualtieri")
OLD = SubQuestion(question="Who is the mayor of Paris?", answer="Hidalgo", statement="The mayor is A. Hidalgo.")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY, OLD)}}
ROME = "The fact says otherwise, so the answer here is: Rome\nSubquestion: and so on"
MAYOR = "The fact is about something else, so the answer here is: Gualtieri"


def replay(*script, ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), value=VALUE, **options):
    model = ScriptedModel(script)
    session = make_session(model, material={SUB_QUESTIONS: Material(value=value, oracle=True)})
    config = MelloConfig(decomposition="oracle", **options)
    with Mello(config=config).edit(session, edits) as edited:
        (reply,) = edited.answer([ask])
    return reply, model


@pytest.mark.parametrize("profile", ["fixed", "paper", "remastered"])
def test_the_model_is_asked_only_to_weigh(profile) -> None:
    reply, model = replay(ROME, MAYOR, profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.answer) for step in reply.steps] == [
        ("subquestion", CITY.question, "Rome"),
        ("subquestion", NEW.question, "Gualtieri"),
        ("final", "Gualtieri", ""),
    ]
    assert reply.steps[0].retrieved == (MOVE_TOWER.id,)
    end = "" if profile == "remastered" else "."
    assert model.prompts[0].endswith(
        f"stion: {ASK.texts[0]}\nSubquestion: In which city is Eiffel Tower?\n"
        f"Generated answer: Eiffel Tower is in Paris.\nRetrieved fact: Eiffel Tower is located in Rome{end}\n"
    )
    assert model.prompts[1].startswith(model.prompts[0] + ROME.split("\n", 1)[0] + "\nSubquestion: Who is the mayor")
    assert {request.stop for request in model.requests} == {("\n",)}


def test_a_wrong_hop_does_not_lead_the_next_one_astray() -> None:
    reply, model = replay(ROME.replace("Rome", "Paris"), MAYOR)
    assert [step.answer for step in reply.steps] == ["Paris", "Gualtieri", ""]
    assert "Subquestion: Who is the mayor of Rome?" in model.prompts[1]


def test_a_control_is_asked_about_the_old_world() -> None:
    _reply, model = replay(ROME, MAYOR, ask=evolve(ASK, own=()))
    assert "Subquestion: Who is the mayor of Paris?\nGenerated answer: The mayor is A. Hidalgo.\n" in model.prompts[1]


def test_hidden_facts_stay_hidden() -> None:
    reply, _model = replay(ROME, MAYOR, ask=evolve(ASK, hidden=frozenset({MOVE_TOWER.id})))
    assert reply.steps[0].retrieved == (MOVE_GATE.id,)


@pytest.mark.parametrize("said", ["", "I do not know.", "so the answer here is:"])
def test_a_self_check_without_an_answer_is_unparsed(said) -> None:
    reply, _model = replay(said)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])


def test_a_self_check_that_does_not_end_is_length() -> None:
    assert replay("so the answer here is: Rome or Paris or", max_tokens=5)[0].outcome == "length"


def test_the_cap_holds() -> None:
    assert replay(ROME, max_calls=1)[0].outcome == "hop-cap"


def test_a_question_that_the_dataset_does_not_take_apart_is_a_failure() -> None:
    reply, _model = replay(value={})
    assert reply == Failure(error="LookupError", message="the dataset has no sub-questions for this question")


def test_log_probabilities_are_not_given() -> None:
    reply, _model = replay(ask=Likelihood(id="l", case="c", prompt="p", continuations=(" a",)))
    assert reply.unscored


def test_v16_gold_is_used_only_where_the_options_name_it() -> None:
    (spec,) = ke_editors()
    assert spec.oracle(MelloConfig()) == ()
    assert spec.oracle(MelloConfig(decomposition="oracle")) == (SUB_QUESTIONS,)
    model = ScriptedModel(["\nFinal answer: Rome"])
    session = make_session(model, material={SUB_QUESTIONS: Material(value=VALUE, oracle=True)})
    with Mello(config=MelloConfig()).edit(session, [MOVE_TOWER]) as edited:
        edited.answer([ASK])
    assert "Gualtieri" not in model.prompts[0]
    assert model.prompts[0].endswith(f"Question: {ASK.texts[0]}")


def test_a_dataset_without_sub_questions_is_refused() -> None:
    config = MelloConfig(decomposition="oracle")
    with (
        pytest.raises(BadConfig, match="has no sub-questions"),
        Mello(config=config).edit(make_session(ScriptedModel([])), []),
    ):
        pass
