"""The walk over the dataset's sub-questions (``decomposition=oracle``)."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import answer_from_script

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")
NEW = SubQuestion(question="Who is the mayor of Rome?", answer="Gualtieri", statement="Gualtieri")
OLD = SubQuestion(question="Who is the mayor of Paris?", answer="Hidalgo", statement="The mayor is A. Hidalgo.")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY, OLD)}}
ROME = "The fact says otherwise, so the answer here is: Rome\nSubquestion: and so on"
MAYOR = "The fact is about something else, so the answer here is: Gualtieri"


def replay(*script, ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), **options):
    editor = Mello(config=MelloConfig(decomposition="oracle", **options))
    material = {SUB_QUESTIONS: Material(value=VALUE, oracle=True)}
    return answer_from_script(editor, script, ask, edits, material=material)


@pytest.mark.parametrize("profile", ["default", "paper", "remastered"])
def test_model_only_compares_facts_with_given_answers(profile) -> None:
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


def test_hops_are_independent() -> None:
    reply, model = replay(ROME.replace("Rome", "Paris"), MAYOR)
    assert [step.answer for step in reply.steps] == ["Paris", "Gualtieri", ""]
    assert "Subquestion: Who is the mayor of Rome?" in model.prompts[1]


def test_control_uses_the_hops_before_the_edits() -> None:
    _reply, model = replay(ROME, MAYOR, ask=evolve(ASK, own=()))
    assert "Subquestion: Who is the mayor of Paris?\nGenerated answer: The mayor is A. Hidalgo.\n" in model.prompts[1]


def test_hidden_facts_are_not_retrieved() -> None:
    reply, _model = replay(ROME, MAYOR, ask=evolve(ASK, hidden=frozenset({MOVE_TOWER.id})))
    assert reply.steps[0].retrieved == (MOVE_GATE.id,)


@pytest.mark.parametrize("said", ["", "I do not know.", "so the answer here is:"])
def test_self_check_without_an_answer_is_unparsed(said) -> None:
    reply, _model = replay(said)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])


def test_truncated_self_check_is_length() -> None:
    assert replay("so the answer here is: Rome or Paris or", max_tokens=5)[0].outcome == "length"


def test_more_hops_than_calls_is_hop_cap() -> None:
    assert replay(max_calls=1)[0].outcome == "hop-cap"
