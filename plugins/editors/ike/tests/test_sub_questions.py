"""The walk over the dataset's sub-questions (``decomposition=oracle``)."""

from __future__ import annotations

from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
from ke_plugin_ike import IkeConfig
from ke_plugin_ike.editor import Ike
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import answer_from_script

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")
GATE = SubQuestion(question="In which city is Brandenburg Gate?", answer="Berlin", statement="Berlin")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, GATE), "before": (GATE,)}}
TOWER = MOVE_TOWER.statement


def replay(*script, ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), **options):
    """Return the reply and the model, whose script must be used up."""
    editor = Ike(config=IkeConfig(**{"decomposition": "oracle", "top": 1} | options))
    material = {SUB_QUESTIONS: Material(value=VALUE, oracle=True)}
    return answer_from_script(editor, script, ask, edits, material=material)


def test_each_hop_has_its_own_context() -> None:
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


def test_without_a_fact_the_given_answer_is_used() -> None:
    reply, _model = replay(edits=())
    assert (reply.text, [step.answer for step in reply.steps]) == ("Berlin", ["Paris", "Berlin", ""])
    assert replay(ask=evolve(ASK, hidden=frozenset({MOVE_TOWER.id, MOVE_GATE.id})))[0].text == "Berlin"


def test_own_facts_need_no_retrieval() -> None:
    reply, model = replay(" Rome", " Berlin", facts="own")
    assert [step.retrieved for step in reply.steps] == [(), (), ()]
    assert all(f"Update: {TOWER}\nText: In which" in prompt for prompt in model.prompts)
    assert replay(ask=evolve(ASK, own=()), facts="own")[0].text == "Berlin"


def test_hop_without_an_answer_is_unparsed() -> None:
    reply, _model = replay("\nUpdate:")
    assert (reply.outcome, reply.text, reply.steps[-1].retrieved) == ("unparsed", "", (MOVE_TOWER.id,))
