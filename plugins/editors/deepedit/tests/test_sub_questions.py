"""The walk over the dataset's sub-questions (``decomposition=oracle``)."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Edit, Material, SubQuestion
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.editor import DeepEdit
from ke_testing.examples import MOVE_TOWER, question
from ke_testing.fakes import answer_from_script

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="Where is Eiffel Tower located?", answer="Paris", statement="Eiffel Tower is in Paris")
NEW = SubQuestion(question="Who governs Rome?", answer="Gualtieri", statement="Rome is governed by Gualtieri")
OLD = SubQuestion(question="Who governs Paris?", answer="Hidalgo", statement="Hidalgo governs Paris")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY, OLD)}}
START, ROME = " Eiffel Tower", " Rome"
NOT_NAMED, NOT_ALIKE = " no", " no"


def replay(*script, edits=(MOVE_TOWER,), ask=ASK, value=VALUE, **options):
    """Return the reply and the model, whose script must be used up."""
    editor = DeepEdit(config=DeepEditConfig(**{"decomposition": "oracle"} | options))
    material = {SUB_QUESTIONS: Material(value=value, oracle=True)}
    return answer_from_script(editor, script, ask, edits, material=material)


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_relevant_fact_replaces_the_given_thought(profile) -> None:
    # The fact does not fit the second hop, which starts from another entity.
    reply, model = replay(START, ROME, " Italy", NOT_NAMED, NOT_ALIKE, profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subquestion", CITY.question, (MOVE_TOWER.id,), "Rome"),
        ("subquestion", NEW.question, (MOVE_TOWER.id,), "Gualtieri"),
        ("final", "Gualtieri", (), ""),
    ]
    assert [prompt.rpartition("\n\n")[2] for prompt in model.prompts] == [
        f"Question: {CITY.question}\nStarts from:",
        f"Before: {CITY.question}\nNow: {MOVE_TOWER.statement}\nNamed for the first time:",
        f"Question: {NEW.question}\nStarts from:",
        f"Sentence: {MOVE_TOWER.statement}\nIs Italy named in it, by this name or another?",
        f"A: {MOVE_TOWER.statement}\nB: {NEW.statement}\nDo A and B tell the same kind of thing?",
    ]
    assert reply.raw == f" {MOVE_TOWER.statement}.# {NEW.statement}.#"


def test_contradicting_fact_replaces_the_given_thought() -> None:
    reply, _model = replay(" France", NOT_NAMED, " yes", " yes", " yes", ROME, " Italy", NOT_NAMED, NOT_ALIKE)
    assert reply.steps[0].answer == "Rome"


def test_nearer_of_two_relevant_facts_is_used() -> None:
    other = Edit(id="other", statement="Eiffel Tower was painted in green")
    reply, _model = replay(START, ROME, ask=evolve(ASK, own=()), value=one(CITY), edits=(other, MOVE_TOWER))
    assert (reply.text, reply.steps[0].retrieved) == ("Rome", (MOVE_TOWER.id, "other"))


def one(*hops):
    return {f"{ASK.case}/{ASK.query}": {"after": hops, "before": hops}}


def test_without_facts_the_given_answers_are_used() -> None:
    assert replay(edits=())[0].text == "Gualtieri"
    assert replay(ask=evolve(ASK, own=(), hidden=frozenset({MOVE_TOWER.id})))[0].text == "Hidalgo"
    assert replay(ask=evolve(ASK, own=()), facts="own")[0].text == "Hidalgo"


def test_fact_without_a_new_entity_is_unparsed() -> None:
    reply, _model = replay(START, "\n")
    assert (reply.outcome, reply.steps[0].retrieved) == ("unparsed", (MOVE_TOWER.id,))


def test_unparsable_judgments_are_recorded_with_their_hop() -> None:
    reply, _model = replay(" France", " maybe", NOT_ALIKE, " Italy", NOT_NAMED, NOT_ALIKE)
    assert [step.kind for step in reply.steps] == ["subquestion", "unreadable", "subquestion", "final"]


def test_max_calls_limits_all_hops_together() -> None:
    reply, _model = replay(START, ROME, " Italy", max_calls=3)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("hop-cap", ["subquestion", "call-cap"])
