"""The walk over the dataset's sub-questions (``decomposition=oracle``)."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import answer_from_script

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower located?", answer="Paris", statement="It is in Paris")
NEW = SubQuestion(question="Who governs it?", answer="Gualtieri", statement="Rome is governed by Gualtieri")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY,)}}
ROME, MAYOR = "So the entity reached is: Rome.\nSubquestion: no", "So the entity reached is: Gualtieri"


def replay(*script, ask=ASK, **options):
    """Return the reply and the model, whose script must be used up."""
    config = PokemqaConfig(**{"detector": "nearest", "threshold": 0.6, "decomposition": "oracle"} | options)
    material = {SUB_QUESTIONS: Material(value=VALUE, oracle=True)}
    return answer_from_script(Pokemqa(config), script, ask, [MOVE_TOWER, MOVE_GATE], material=material)


@pytest.mark.parametrize("loop", ["default", "paper"])
def test_edit_in_scope_or_the_given_answer_is_used(loop) -> None:
    reply, model = replay(ROME, MAYOR, loop=loop)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subquestion", CITY.question, (MOVE_TOWER.id,), "Rome"),
        ("subquestion", NEW.question, (), "Gualtieri"),
        ("final", "Gualtieri", (), ""),
    ]
    assert model.prompts[1].removeprefix(model.prompts[0]) == (
        "So the entity reached is: Rome."
        "\nSubquestion: Who governs it?\nGenerated answer: Rome is governed by Gualtieri.\n"
    )
    assert model.prompts[0].endswith(
        f"\n\nQuestion: {ASK.texts[0]}\nSubquestion: {CITY.question}"
        "\nGenerated answer: Eiffel Tower is located in Rome.\n"
    )
    assert {request.stop for request in model.requests} == {("\n",)}


def test_hops_are_independent() -> None:
    reply, _model = replay("So the entity reached is: Oslo", MAYOR)
    assert (reply.text, [step.answer for step in reply.steps]) == ("Gualtieri", ["Oslo", "Gualtieri", ""])


def test_control_uses_the_hops_before_the_edits_and_no_hidden_edit() -> None:
    hidden = frozenset({MOVE_TOWER.id, MOVE_GATE.id})
    reply, model = replay("So the entity reached is: Paris", ask=evolve(ASK, own=(), hidden=hidden))
    assert (reply.text, reply.steps[0].retrieved) == ("Paris", ())
    assert "\nGenerated answer: It is in Paris.\n" in model.prompts[0]


@pytest.mark.parametrize("said", ["", "I do not know.", "So the entity reached is: "])
def test_line_without_an_entity_is_unparsed(said) -> None:
    reply, _model = replay(said)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])
    assert reply.steps[0].retrieved == (MOVE_TOWER.id,)


def test_truncated_line_is_length_and_too_many_hops_is_hop_cap() -> None:
    assert replay("So the entity reached is: Rome or", max_tokens=5)[0].outcome == "length"
    assert replay(max_calls=1)[0].outcome == "hop-cap"
