"""The facts before a question, and the unchanged rest of the prompt."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Cloze, Likelihood, Scored, UnsupportedEdit
from ke_plugin_ice import IceConfig, ke_editors
from ke_plugin_ice.editor import Ice
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, TEXT_ONLY, question
from ke_testing.fakes import ScriptedModel, answer_from_script, make_session

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id,))
OWN_PROMPT = ASK.prompt.text
TOWER, GATE = "Eiffel Tower is located in Rome.", "Brandenburg Gate is located in Madrid."


def editing(model, edits=(MOVE_TOWER, MOVE_GATE), **options):
    return Ice(config=IceConfig(**options)).edit(make_session(model), edits)


def asked(ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), **options):
    """Return the reply, and the request to the model."""
    reply, model = answer_from_script(Ice(config=IceConfig(**options)), [" Rome\nQ: more"], ask, edits)
    return reply, model.requests[0]


def test_one_edit_is_one_line_before_the_prompt() -> None:
    reply, request = asked(edits=[MOVE_TOWER])
    assert request.prompt == f"Imagine that {TOWER}\n{OWN_PROMPT}"
    assert (request.max_tokens, request.stop, request.temperature) == (8, ("\n",), 0.0)
    assert (reply.text, reply.outcome, reply.steps) == ("Rome", "answered", ())


@pytest.mark.parametrize("facts", ["own", "all", "retrieved"])
def test_paper_profile_puts_the_object_first(facts) -> None:
    edit = evolve(MOVE_TOWER, cloze=Cloze(template="The city of {} is", subject="Eiffel Tower"))
    shown = "Rome would have been The city of Eiffel Tower."
    assert asked(edits=[edit], profile="paper", facts=facts)[1].prompt == f"Imagine that {shown}\n{OWN_PROMPT}"


def test_paper_profile_refuses_other_clozes() -> None:
    editor = Ice(config=IceConfig(profile="paper"))
    refused = editor.check(make_session(ScriptedModel([])), [MOVE_TOWER, TEXT_ONLY])
    assert "does not end in is or are" in refused[MOVE_TOWER.id]
    assert set(refused) == {MOVE_TOWER.id, TEXT_ONLY.id}
    with pytest.raises(UnsupportedEdit, match="does not end in is or are"), editing(ScriptedModel([]), profile="paper"):
        pass


def test_several_edits_keep_their_order() -> None:
    for edits, facts in (((MOVE_TOWER, MOVE_GATE), f"{TOWER} {GATE}"), ((MOVE_GATE, MOVE_TOWER), f"{GATE} {TOWER}")):
        assert asked(edits=edits)[1].prompt == f"Imagine that {facts}\n{OWN_PROMPT}"


@pytest.mark.parametrize(
    ("options", "facts"),
    [({"facts": "own"}, TOWER), ({"facts": "retrieved", "k": 1}, TOWER), ({"facts": "retrieved"}, f"{TOWER} {GATE}")],
)
def test_option_facts_selects_the_facts(options, facts) -> None:
    assert asked(edits=(MOVE_GATE, MOVE_TOWER), **options)[1].prompt == f"Imagine that {facts}\n{OWN_PROMPT}"


@pytest.mark.parametrize("facts", ["own", "all", "retrieved"])
def test_prompt_without_facts_is_unchanged(facts) -> None:
    assert asked(edits=(), facts=facts)[1].prompt == OWN_PROMPT


def test_log_probabilities_are_computed_after_the_facts() -> None:
    model = ScriptedModel()
    ask = Likelihood(id="l", case="c", prompt="The tower is in", continuations=(" Rome", " Paris"))
    with editing(model, [MOVE_TOWER]) as edited:
        (reply,) = edited.answer([ask])
    assert isinstance(reply, Scored)
    assert [request.prompt for request in model.scored] == [f"Imagine that {TOWER}\nThe tower is in"]
    assert model.scored[0].continuations == ask.continuations


def test_query_is_the_question_only() -> None:
    (spec,) = ke_editors()
    assert spec.oracle(IceConfig()) == ()
    assert asked(facts="retrieved")[0].steps[0].text == ASK.texts[0]


def test_opening_is_read_from_a_folder(tmp_path) -> None:
    (tmp_path / "opening.txt").write_text("Be told that\n", encoding="utf-8")
    assert asked(edits=[MOVE_TOWER], prompts=str(tmp_path))[1].prompt == f"Be told that {TOWER}\n{OWN_PROMPT}"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\xff", b"one\ntwo"])
def test_unusable_opening_is_refused(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "opening.txt").write_bytes(content)
    with pytest.raises(BadConfig, match=r"opening\.txt"), editing(ScriptedModel([]), prompts=str(tmp_path)):
        pass


def test_answer_longer_than_the_limit_is_used() -> None:
    model = ScriptedModel([" Rome " + "and on " * 20])
    with editing(model) as edited:
        (reply,) = edited.answer([ASK])
    assert (reply.outcome, reply.text) == ("answered", "Rome and on and on and on")
