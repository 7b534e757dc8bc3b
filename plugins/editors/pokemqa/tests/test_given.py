"""Sub-questions and answers from the dataset: the method says which edit is in scope and reads on, nothing else."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, BadConfig, Failure, Likelihood, Material, SubQuestion
from ke_plugin_pokemqa import PokemqaConfig, ke_editors
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, make_session

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY = SubQuestion(question="In which city is Eiffel Tower located?", answer="Paris", statement="It is in Paris")
NEW = SubQuestion(question="Who governs it?", answer="Gualtieri", statement="Rome is governed by Gualtieri")
VALUE = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY,)}}
ROME, MAYOR = "So the entity reached is: Rome.\nSubquestion: no", "So the entity reached is: Gualtieri"


def replay(*script, ask=ASK, value=VALUE, **options):
    """The reply and the model, whose script must be used up."""
    model = ScriptedModel(script)
    config = PokemqaConfig(**{"detector": "nearest", "threshold": 0.6, "decomposition": "oracle"} | options)
    session = make_session(model, material={SUB_QUESTIONS: Material(value=value, oracle=True)})
    with Pokemqa(config).edit(session, [MOVE_TOWER, MOVE_GATE]) as edited:
        (reply,) = edited.answer([ask])
    assert len(model.prompts) == len(script)
    return reply, model


@pytest.mark.parametrize("loop", ["fixed", "published"])
def test_an_edit_in_scope_answers_and_else_the_given_answer(loop) -> None:
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


def test_each_hop_stands_for_itself() -> None:
    reply, _model = replay("So the entity reached is: Oslo", MAYOR)
    assert (reply.text, [step.answer for step in reply.steps]) == ("Gualtieri", ["Oslo", "Gualtieri", ""])


def test_a_control_is_asked_about_the_old_world_and_hidden_edits_stay_hidden() -> None:
    hidden = frozenset({MOVE_TOWER.id, MOVE_GATE.id})
    reply, model = replay("So the entity reached is: Paris", ask=evolve(ASK, own=(), hidden=hidden))
    assert (reply.text, reply.steps[0].retrieved) == ("Paris", ())
    assert "\nGenerated answer: It is in Paris.\n" in model.prompts[0]


@pytest.mark.parametrize("said", ["", "I do not know.", "So the entity reached is: "])
def test_a_line_that_reaches_nothing_is_unparsed(said) -> None:
    reply, _model = replay(said)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])
    assert reply.steps[0].retrieved == (MOVE_TOWER.id,)


def test_a_line_that_does_not_end_is_length_and_the_cap_holds() -> None:
    assert replay("So the entity reached is: Rome or", max_tokens=5)[0].outcome == "length"
    assert replay(max_calls=1)[0].outcome == "hop-cap"


def test_questions_that_were_not_taken_apart_fail_and_scores_are_declined() -> None:
    assert isinstance(replay(value={})[0], Failure)
    assert replay(ask=Likelihood(id="l", case="c", prompt="p", continuations=(" a",)))[0].unscored


def test_v16_gold_is_used_only_where_the_options_name_it() -> None:
    (spec,) = ke_editors()
    assert spec.oracle(PokemqaConfig()) == ()
    assert spec.oracle(PokemqaConfig(decomposition="oracle")) == (SUB_QUESTIONS,)
    _reply, model = replay("\nFinal answer: Rome", decomposition="model")
    assert model.prompts[0].endswith(f"Question: {ASK.texts[0]}")


def test_a_dataset_without_sub_questions_is_refused() -> None:
    editor = Pokemqa(PokemqaConfig(decomposition="oracle", detector="nearest"))
    with pytest.raises(BadConfig, match=r"pokemqa\.decomposition=oracle: this dataset has no sub-questions"):
        editor.edit(make_session(ScriptedModel([])), [])
