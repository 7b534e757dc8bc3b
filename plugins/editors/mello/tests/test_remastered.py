"""The port of MQuAKE-Remastered: its differences from the paper's loop."""

from __future__ import annotations

from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import WordEncoder, answer_from_script

ASK = question("Who is the mayor of the city of the Eiffel Tower?")
FIRST = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris.\nRetrieved fact:"


class RecordingEncoder(WordEncoder):
    def __init__(self):
        super().__init__()
        self.seen = []

    def embed(self, texts):
        self.seen += texts
        return super().embed(texts)


def replay(*script, edits=(MOVE_TOWER, MOVE_GATE), encoder=None):
    editor = Mello(config=MelloConfig(profile="remastered"))
    return answer_from_script(editor, script, ASK, edits, encoder=encoder)


def test_query_keeps_its_label_and_fact_has_no_period() -> None:
    encoder = RecordingEncoder()
    reply, model = replay(FIRST, "\nFinal answer: Rome", encoder=encoder)
    assert encoder.seen[-1] == "Subquestion: In which city is the Eiffel Tower?"
    assert reply.steps[0].text == "In which city is the Eiffel Tower?"
    assert model.prompts[1].endswith("\nRetrieved fact: Eiffel Tower is located in Rome\n")


def test_empty_memory_has_its_own_sentence() -> None:
    _reply, model = replay(FIRST, "\nFinal answer: Rome", edits=())
    assert model.prompts[1].endswith("\nRetrieved fact: There is no fact\n")


def test_only_the_last_period_is_removed() -> None:
    assert replay("\nFinal answer: W. G. Sebald.\nmore")[0].text == "W. G. Sebald"


def test_text_after_an_invented_question_is_cut() -> None:
    said = "\nI wonder.\nQuestion: Who?\nSubquestion: Who?\nGenerated answer: He.\nRetrieved fact:"
    reply, _model = replay(said)
    assert (reply.outcome, reply.raw) == ("unparsed", "\nI wonder.")


def test_truncated_turn_is_used() -> None:
    long = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in" + " very" * 60
    reply, _model = replay(long, "\nFinal answer: Rome and" + " on" * 60)
    assert reply.outcome == "answered"
    assert reply.steps[0].retrieved == (MOVE_TOWER.id,)


def test_truncated_turn_without_a_subquestion_is_length() -> None:
    reply, _model = replay("and on" * 60)
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("length", ["unparsed"])


def test_loop_ends_after_four_calls() -> None:
    reply, _model = replay(FIRST, FIRST, FIRST, FIRST)
    assert (reply.outcome, len(reply.steps)) == ("hop-cap", 4)
