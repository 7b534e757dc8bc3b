"""Which edits pass a gate, and that the prompt is the unedited one if none does."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Hit, Likelihood, Scored
from ke_memory.plugin import FactMemory
from ke_plugin_rag import RagConfig, ScrConfig
from ke_plugin_rag.editor import Rag, Scr
from ke_plugin_rag.gates import selected
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import WordEncoder, answer_from_script

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id,))
OTHER = question("Who painted it?")
LIKELIHOOD = Likelihood(id="l", case="c", prompt="The Eiffel Tower is in", continuations=(" Rome", " Paris"))
TOWER, GATE = "Eiffel Tower is located in Rome.", "Brandenburg Gate is located in Madrid."
EDITORS = {
    "rag": Rag(config=RagConfig()),
    "threshold": Rag(config=RagConfig(gate="threshold", threshold=0.3)),
    "scr": Scr(config=ScrConfig()),
}


def asked(editor, script, ask=ASK, edits=(MOVE_GATE, MOVE_TOWER)):
    """Return the reply and the model with its requests."""
    return answer_from_script(editor, script, ask, edits)


def select(reply):
    """Return a script of the selection and the answer, in either of which the model says ``reply``."""
    return lambda prompt: f" {reply}" if prompt.endswith("\nFact:") else " Rome"


@pytest.mark.parametrize("edit", FOUR_MOVES, ids=lambda edit: edit.id)
def test_every_edit_retrieves_itself_at_rank_1(edit) -> None:
    memory = FactMemory(WordEncoder(), ((one.id, one.statement) for one in FOUR_MOVES))
    ((first, *_others),) = memory.search([edit.statement], k=4, hidden=[frozenset()])
    assert first.id == edit.id
    reply, _model = asked(EDITORS["rag"], [" Rome"], question(edit.statement), FOUR_MOVES)
    assert reply.steps[0].retrieved == (edit.id,)


@pytest.mark.parametrize("name", EDITORS)
def test_nearest_edit_is_before_the_unchanged_prompt(name) -> None:
    reply, model = asked(EDITORS[name], select(TOWER))
    assert model.prompts[-1] == f"Fact: {TOWER}\n{ASK.prompt.text}"
    assert (reply.text, reply.steps[0].kind, reply.steps[0].retrieved) == ("Rome", "retrieved", (MOVE_TOWER.id,))


@pytest.mark.parametrize("name", EDITORS)
@pytest.mark.parametrize("ask", [ASK, LIKELIHOOD], ids=["question", "likelihood"])
def test_empty_memory_sends_the_unedited_request_only(name, ask) -> None:
    _reply, model = asked(EDITORS[name], select(TOWER), ask, edits=())
    assert [request.prompt for request in (*model.requests, *model.scored)] == [
        ask.prompt if ask is LIKELIHOOD else ask.prompt.text
    ]


def test_plain_retrieval_shows_the_nearest_edit_to_any_question() -> None:
    assert asked(EDITORS["rag"], [" Rome"], OTHER)[1].prompts[0].startswith("Fact: ")


def test_edit_below_the_threshold_is_not_shown() -> None:
    reply, model = asked(EDITORS["threshold"], [" Rome"], OTHER)
    assert model.prompts == [OTHER.prompt.text]
    assert reply.steps[0].retrieved == ()


@pytest.mark.parametrize("says", ["none", "None.", "", "The Louvre is in Rome."])
def test_model_that_selects_no_edit_gives_the_unedited_answer(says) -> None:
    reply, model = asked(EDITORS["scr"], select(says))
    assert model.prompts[-1] == ASK.prompt.text
    assert (reply.text, reply.steps[0].retrieved) == ("Rome", ())
    assert (reply.steps[1].kind, reply.steps[1].text) == ("selection", says)
    _reply, model = asked(EDITORS["scr"], select(says), LIKELIHOOD)
    assert [request.prompt for request in model.scored] == [LIKELIHOOD.prompt]


def test_selection_lists_the_nearest_edits_and_the_question() -> None:
    selection = asked(EDITORS["scr"], select(TOWER))[1].requests[0]
    assert selection.prompt.endswith(f"\n\nFacts:\n- {TOWER}\n- {GATE}\nQuestion: {ASK.texts[0]}\nFact:")
    assert (selection.max_tokens, selection.stop, selection.temperature) == (50, ("\n",), 0.0)
    few = asked(Scr(config=ScrConfig(k=1)), select(TOWER))[1].requests[0]
    assert GATE not in few.prompt


@pytest.mark.parametrize("name", EDITORS)
def test_log_probabilities_are_computed_after_the_edit(name) -> None:
    reply, model = asked(EDITORS[name], select(TOWER), LIKELIHOOD)
    assert isinstance(reply, Scored)
    assert [request.prompt for request in model.scored] == [f"Fact: {TOWER}\n{LIKELIHOOD.prompt}"]


def test_hidden_edit_is_not_offered_for_selection() -> None:
    ask = evolve(ASK, hidden=frozenset({MOVE_TOWER.id}))
    selection, answer = asked(EDITORS["scr"], select(TOWER), ask)[1].prompts
    assert TOWER not in selection
    assert answer == ASK.prompt.text


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (" Eiffel Tower is located in Rome.", "tower"),
        (" - eiffel tower is  located in Rome", "tower"),
        (" Fact: Eiffel Tower is located in Rome", "tower"),
        (" The matching fact is: Eiffel Tower is located in Rome.", "tower"),
        (" Eiffel Tower is loc", ""),
        (" It is false that the moon is made of cheese.", "moon"),
        (" Eiffel Tower is located in Romeville.", ""),
        (" none", ""),
        (" none. That Eiffel Tower is located in Rome is not relevant", ""),
        (" None of them.", ""),
        ("", ""),
        (" Rome", ""),
    ],
)
def test_selection_is_the_edit_that_the_reply_repeats(reply, found) -> None:
    assert [hit.id for hit in selected(reply, _hits())] == ([found] if found else [])


def test_reply_that_was_cut_off_may_be_the_start_of_an_edit() -> None:
    assert [hit.id for hit in selected(" Eiffel Tower is loc", _hits(), cut_off=True)] == ["tower"]


def test_longest_repeated_edit_is_selected() -> None:
    both = [Hit(id=name, text=f"Ann is a citizen of {name}", score=0.5) for name in ("Guinea", "Guinea-Bissau")]
    assert [hit.id for hit in selected("Ann is a citizen of Guinea-Bissau.", both)] == ["Guinea-Bissau"]
    assert [hit.id for hit in selected("Ann is a citizen of Guinea.", both)] == ["Guinea"]


def _hits() -> list[Hit]:
    facts = {"tower": TOWER, "moon": "It is false that the moon is made of cheese"}
    return [Hit(id=name, text=text, score=0.5) for name, text in facts.items()]


def test_threshold_needs_its_gate_and_a_number_for_other_encoders() -> None:
    assert Rag(config=RagConfig(gate="threshold")).gate.threshold == 0.66
    with pytest.raises(BadConfig, match="no threshold for the encoder other"):
        Rag(config=RagConfig(gate="threshold", encoder="other"))
    with pytest.raises(BadConfig, match=r"rag\.threshold=0\.5 has no effect"):
        Rag(config=RagConfig(threshold=0.5))


@pytest.mark.parametrize(("missing", "editor"), [("opening.txt", "rag"), ("opening.txt", "scr"), ("select.txt", "scr")])
def test_prompts_are_read_from_a_folder(tmp_path, missing, editor) -> None:
    files = {"opening.txt": "Suppose that", "select.txt": "Select."}
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    made = (
        Rag(config=RagConfig(prompts=str(tmp_path)))
        if editor == "rag"
        else Scr(config=ScrConfig(prompts=str(tmp_path)))
    )
    prompts = asked(made, select(TOWER))[1].prompts
    assert prompts[-1] == f"Suppose that {TOWER}\n{ASK.prompt.text}"
    assert editor == "rag" or prompts[0].startswith("Select.\n\nFacts:")
    (tmp_path / missing).unlink()
    with pytest.raises(BadConfig, match=missing):
        asked(made, select(TOWER))
