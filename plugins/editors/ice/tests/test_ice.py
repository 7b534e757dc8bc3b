"""What stands before a question, and that the rest is the benchmark's own."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Cloze, Failure, Likelihood, Scored, UnsupportedEdit
from ke_plugin_ice import IceConfig, ke_editors
from ke_plugin_ice.editor import Ice
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, TEXT_ONLY, question
from ke_testing.fakes import ScriptedModel, make_session

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id,))
OWN_PROMPT = ASK.prompt.text
TOWER, GATE = "Eiffel Tower is located in Rome.", "Brandenburg Gate is located in Madrid."


def editing(model, edits=(MOVE_TOWER, MOVE_GATE), **options):
    return Ice(config=IceConfig(**options)).edit(make_session(model), edits)


def asked(ask=ASK, edits=(MOVE_TOWER, MOVE_GATE), **options):
    """The reply, and the request that the model was sent."""
    model = ScriptedModel([" Rome\nQ: more"])
    with editing(model, edits, **options) as edited:
        (reply,) = edited.answer([ask])
    (request,) = model.requests
    return reply, request


def test_one_edit_is_one_line_before_the_benchmarks_prompt() -> None:
    """reference/ripple_edits.md, section 13 (14): exactly one context line."""
    reply, request = asked(edits=[MOVE_TOWER])
    assert request.prompt == f"Imagine that {TOWER}\n{OWN_PROMPT}"
    assert (request.max_tokens, request.stop, request.temperature) == (8, ("\n",), 0.0)
    assert (reply.text, reply.outcome, reply.steps) == ("Rome", "answered", ())


@pytest.mark.parametrize("facts", ["own", "all", "retrieved"])
def test_the_papers_form_has_the_object_first(facts) -> None:
    edit = evolve(MOVE_TOWER, cloze=Cloze(template="The city of {} is", subject="Eiffel Tower"))
    shown = "Rome would have been The city of Eiffel Tower."
    assert asked(edits=[edit], profile="paper", facts=facts)[1].prompt == f"Imagine that {shown}\n{OWN_PROMPT}"


def test_the_papers_form_refuses_what_it_has_no_words_for() -> None:
    editor = Ice(config=IceConfig(profile="paper"))
    refused = editor.check(make_session(ScriptedModel([])), [MOVE_TOWER, TEXT_ONLY])
    assert "does not end in is or are" in refused[MOVE_TOWER.id]
    assert set(refused) == {MOVE_TOWER.id, TEXT_ONLY.id}
    with pytest.raises(UnsupportedEdit, match="does not end in is or are"), editing(ScriptedModel([]), profile="paper"):
        pass


def test_many_edits_follow_one_another_in_their_order() -> None:
    for edits, facts in (((MOVE_TOWER, MOVE_GATE), f"{TOWER} {GATE}"), ((MOVE_GATE, MOVE_TOWER), f"{GATE} {TOWER}")):
        assert asked(edits=edits)[1].prompt == f"Imagine that {facts}\n{OWN_PROMPT}"


@pytest.mark.parametrize(
    ("options", "facts"),
    [({"facts": "own"}, TOWER), ({"facts": "retrieved", "k": 1}, TOWER), ({"facts": "retrieved"}, f"{TOWER} {GATE}")],
)
def test_the_facts_shown_are_the_ones_asked_for(options, facts) -> None:
    assert asked(edits=(MOVE_GATE, MOVE_TOWER), **options)[1].prompt == f"Imagine that {facts}\n{OWN_PROMPT}"


def test_what_was_retrieved_is_on_record() -> None:
    reply, _request = asked(facts="retrieved", k=1)
    (step,) = reply.steps
    assert (step.kind, step.retrieved, len(step.scores)) == ("retrieved", (MOVE_TOWER.id,), 1)


@pytest.mark.parametrize("facts", ["own", "all", "retrieved"])
def test_hidden_facts_are_not_shown(facts) -> None:
    ask = evolve(ASK, hidden=frozenset({MOVE_GATE.id}))
    assert asked(ask, facts=facts)[1].prompt == f"Imagine that {TOWER}\n{OWN_PROMPT}"


@pytest.mark.parametrize("facts", ["own", "all", "retrieved"])
def test_without_facts_the_prompt_is_the_benchmarks_alone(facts) -> None:
    assert asked(edits=(), facts=facts)[1].prompt == OWN_PROMPT


def test_a_control_has_no_facts_of_its_own() -> None:
    assert asked(evolve(ASK, own=()), facts="own")[1].prompt == OWN_PROMPT


def test_facts_come_and_go_while_the_model_answers() -> None:
    model = ScriptedModel([" Rome"] * 3)
    with editing(model, [MOVE_GATE]) as edited:
        for change in ({}, {"add": [MOVE_TOWER]}, {"remove": [MOVE_GATE.id]}):
            edited.change(**change)
            edited.answer([ASK])
        assert edited.details["facts"] == 1
    ends = len(OWN_PROMPT) + 1
    assert [prompt[:-ends] for prompt in model.prompts] == [
        f"Imagine that {facts}" for facts in (GATE, f"{GATE} {TOWER}", TOWER)
    ]


def test_v2_log_probabilities_are_those_behind_the_facts_of_the_words_as_they_stand() -> None:
    model = ScriptedModel()
    ask = Likelihood(id="l", case="c", prompt="The tower is in", continuations=(" Rome", " Paris"))
    with editing(model, [MOVE_TOWER]) as edited:
        (reply,) = edited.answer([ask])
    assert isinstance(reply, Scored)
    assert [request.prompt for request in model.scored] == [f"Imagine that {TOWER}\nThe tower is in"]
    assert model.scored[0].continuations == ask.continuations


class Small(ScriptedModel):
    """Ten words of context."""

    def generate(self, requests):
        from ke_core.plugin import ContextOverflow

        return [
            ContextOverflow(f"a prompt of {len(request.prompt.split())} tokens exceeds the context of 24")
            if len(request.prompt.split()) > 24
            else self._one(request)
            for request in requests
        ]


def test_a_prompt_over_the_context_fails_and_is_never_cut() -> None:
    model = Small(lambda _prompt: " Rome")
    many = [evolve(MOVE_GATE, id=str(n)) for n in range(5)]
    with editing(model, many) as edited:
        (reply,) = edited.answer([ASK])
        assert isinstance(reply, Failure)
        assert reply.error == "ContextOverflow"
        assert model.prompts == []
        edited.change(remove=[edit.id for edit in many[1:]])
        assert edited.answer([ASK])[0].text == "Rome"


def test_v16_only_the_question_is_looked_up() -> None:
    """The gold never reaches the method: of a question it sees the wording, its case's edits and what is hidden."""
    (spec,) = ke_editors()
    assert spec.oracle(IceConfig()) == ()
    assert asked(facts="retrieved")[0].steps[0].text == ASK.texts[0]


def test_an_opening_of_ones_own(tmp_path) -> None:
    (tmp_path / "opening.txt").write_text("Be told that\n", encoding="utf-8")
    assert asked(edits=[MOVE_TOWER], prompts=str(tmp_path))[1].prompt == f"Be told that {TOWER}\n{OWN_PROMPT}"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\xff", b"one\ntwo"])
def test_an_unusable_opening_is_refused(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "opening.txt").write_bytes(content)
    with pytest.raises(BadConfig, match=r"opening\.txt"), editing(ScriptedModel([]), prompts=str(tmp_path)):
        pass


def test_an_answer_longer_than_the_limit_is_as_the_benchmark_reads_it() -> None:
    model = ScriptedModel([" Rome " + "and on " * 20])
    with editing(model) as edited:
        (reply,) = edited.answer([ASK])
    assert (reply.outcome, reply.text) == ("answered", "Rome and on and on and on")


def test_no_encoder_is_loaded_where_nothing_is_retrieved() -> None:
    names = []
    session = evolve(make_session(ScriptedModel([])), encoder=names.append)
    with Ice(config=IceConfig()).edit(session, [MOVE_TOWER]) as edited:
        assert edited.details["shown"] == "all"
    assert names == []
