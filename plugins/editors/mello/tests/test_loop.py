"""Replays of the loop with a scripted model: prompts, outcomes, and number of calls."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import Answer, Cost, Generated, Step
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_plugin_mello.turns import first_step
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import answer_from_script

TOWER = question("Who is the mayor of the city of the Eiffel Tower?")
FIRST = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris.\nRetrieved fact: Made up."
SECOND = "\nIt disagrees: Rome\nSubquestion: Who is the mayor of Rome?\nGenerated answer: Gualtieri.\nRetrieved fact:"
FINAL = "\nIt does not disagree: Gualtieri\nFinal answer: Gualtieri"


def hop(n: int) -> str:
    return f"\nSubquestion: What is step {n}?\nGenerated answer: Answer {n}.\nRetrieved fact:"


def replay(*script, edits=(MOVE_TOWER, MOVE_GATE), ask=TOWER, **options):
    """Return the reply and the model, whose script must be used up."""
    return answer_from_script(Mello(config=MelloConfig(**options)), script, ask, edits)


def outcome(*script, **options) -> tuple[str, str]:
    reply, _model = replay(*script, **options)
    assert isinstance(reply, Answer)
    return reply.outcome, reply.text


BOTH = pytest.mark.parametrize("profile", ["default", "paper"])


@BOTH
def test_fact_gets_no_second_period(profile) -> None:
    edits = [evolve(edit, statement=f"{edit.statement}.") for edit in (MOVE_TOWER, MOVE_GATE)]
    _reply, model = replay(FIRST, FINAL, edits=edits, profile=profile)
    assert model.prompts[1].endswith("\nRetrieved fact: Eiffel Tower is located in Rome.")


@BOTH
def test_two_hops(profile) -> None:
    reply, model = replay(FIRST, SECOND, FINAL, profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.retrieved) for step in reply.steps] == [
        ("subquestion", "In which city is the Eiffel Tower?", (MOVE_TOWER.id,)),
        ("subquestion", "Who is the mayor of Rome?", (reply.steps[1].retrieved)),
        ("final", "Gualtieri", ()),
    ]
    assert all(len(step.retrieved) == len(step.scores) == 1 for step in reply.steps[:2])
    label = {"default": "Question", "paper": "Qustion"}[profile]
    assert model.prompts[0].endswith(f"\n\n{label}: Who is the mayor of the city of the Eiffel Tower?")
    added = model.prompts[1].removeprefix(model.prompts[0])
    assert added == (
        "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris."
        "\nRetrieved fact: Eiffel Tower is located in Rome."
    )
    assert model.prompts[2].startswith(model.prompts[1] + "\nIt disagrees: Rome\n")
    assert reply.raw == (model.prompts[2] + FINAL).removeprefix(model.prompts[0])


@BOTH
def test_generation_settings_of_every_call(profile) -> None:
    _reply, model = replay(FIRST, FINAL, profile=profile)
    for request in model.requests:
        assert (request.max_tokens, request.temperature) == (256, 0.0)
        assert request.stop[0] == "Retrieved fact:"
    assert len(model.requests[0].stop) == {"default": 2, "paper": 1}[profile]


@BOTH
def test_final_answer_at_the_first_call(profile) -> None:
    reply, _model = replay("\nFinal answer: Rome", profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Rome")
    assert reply.steps == (Step(kind="final", text="Rome"),)
    assert reply.cost == Cost(calls=1, prompt_tokens=reply.cost.prompt_tokens, tokens=3)


def test_five_calls_finish_four_subquestions() -> None:
    assert outcome(hop(1), hop(2), hop(3), hop(4), FINAL) == ("answered", "Gualtieri")


def test_four_calls_of_the_paper_cannot_finish_four_subquestions() -> None:
    reply, _model = replay(hop(1), hop(2), hop(3), hop(4), profile="paper")
    assert (reply.outcome, reply.text, len(reply.steps)) == ("hop-cap", "", 4)


@pytest.mark.parametrize("calls", [1, 3, 7])
def test_max_calls_is_the_limit(calls) -> None:
    assert outcome(*map(hop, range(calls)), max_calls=calls) == ("hop-cap", "")


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Rome",
        "\nSubquestion: In which city is the Eiffel Tower?",
        "\nSubquestion: In which city is the Eiffel Tower?\nRetrieved fact:",
        "\nGenerated answer: Paris.\nRetrieved fact:",
        "\nSubquestion: In which city?\nIt is well known.\nSo I say.\nGenerated answer: Paris.\nRetrieved fact:",
        "\nSub-question: In which city?\nGenerated answer: Paris.\nRetrieved fact:",
    ],
    ids=["nothing", "blank", "one line", "no answer", "no answer, stop", "no sub-question", "lines between", "label"],
)
def test_missing_subquestion_is_unparsed(text, profile) -> None:
    reply, _model = replay(text, profile=profile)
    assert (reply.outcome, reply.text) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["unparsed"]


FORGOTTEN = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: Paris.\nThe answer is: Paris"


def test_fact_follows_a_tentative_answer_without_announcement() -> None:
    for ending in ("", "\nFinal answer: Paris", "\nSubquestion: Who?\nGenerated answer: She.\nRetrieved fact:"):
        reply, model = replay(FORGOTTEN + ending, FINAL)
        assert (reply.outcome, reply.steps[0].retrieved) == ("answered", (MOVE_TOWER.id,))
        assert model.prompts[1].endswith("Generated answer: Paris.\nRetrieved fact: Eiffel Tower is located in Rome.")


def test_paper_profile_skips_a_subquestion_without_announcement() -> None:
    assert outcome(FORGOTTEN, profile="paper") == ("unparsed", "")
    reply, _model = replay(FORGOTTEN + "\nFinal answer: Paris", profile="paper")
    assert (reply.outcome, reply.text, [step.kind for step in reply.steps]) == ("answered", "Paris", ["final"])


@pytest.mark.parametrize(("tail", "calls"), [("\nand on and on and on", 2), (" and on and on and on and on", 1)])
def test_complete_lines_before_the_limit_are_used(tail, calls) -> None:
    said = f"\nSubquestion: Where?\nGenerated answer: Paris.{tail}"
    script = [said, "\nFinal answer: Rome"][:calls]
    expected = ("answered", "Rome") if calls == 2 else ("length", "")
    assert outcome(*script, max_tokens=5) == expected


@BOTH
def test_unparsed_turn_keeps_earlier_steps(profile) -> None:
    reply, _model = replay(FIRST, "\nI do not know.\nReally.", profile=profile)
    assert reply.outcome == "unparsed"
    assert [step.kind for step in reply.steps] == ["subquestion", "unparsed"]


@BOTH
def test_missing_stop_string_at_the_end_of_text_is_added(profile) -> None:
    said = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris."
    reply, model = replay(said, FINAL, profile=profile)
    assert reply.outcome == "answered"
    assert model.prompts[1].endswith("It is in Paris.\nRetrieved fact: Eiffel Tower is located in Rome.")


@BOTH
def test_missing_stop_string_at_the_limit_is_length(profile) -> None:
    said = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris and it goes on"
    assert outcome(said, max_tokens=10, profile=profile) == ("length", "")


def test_line_that_ends_at_the_limit_is_used() -> None:
    said = "\nSubquestion: In which city is the Eiffel Tower?\nGenerated answer: It is in Paris.\n"
    turn = first_step(Generated(text=said, finish="length", prompt_tokens=1, tokens=1))
    assert turn.subquestion == "In which city is the Eiffel Tower?"
    assert not first_step(Generated(text=said[:-2], finish="length", prompt_tokens=1, tokens=1)).subquestion


@BOTH
def test_truncated_final_answer_is_length(profile) -> None:
    assert outcome("\nFinal answer: New York", max_tokens=3, profile=profile) == ("length", "")


def test_complete_final_answer_before_the_limit_is_used() -> None:
    assert outcome("\nFinal answer: Rome\nand so on and so on", max_tokens=5) == ("answered", "Rome")


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_invented_question_is_cut(gap) -> None:
    said = f"\nFinal answer: Rome{gap}Question: Who?\nSubquestion: Who?\nGenerated answer: He.\nRetrieved fact:"
    assert outcome(said) == ("answered", "Rome")


def test_text_after_the_final_answer_is_ignored() -> None:
    assert outcome("\nFinal answer: Rome\nFinal answer: Oslo") == ("answered", "Rome")


def test_paper_profile_continues_with_the_invented_question() -> None:
    said = "\nFinal answer: Rome\n\nQuestion: Who?\nSubquestion: Who?\nGenerated answer: He.\nRetrieved fact:"
    assert outcome(said, "\nFinal answer: Oslo", profile="paper") == ("answered", "Oslo")


@BOTH
def test_trailing_period_is_left_to_the_judge(profile) -> None:
    assert outcome("\nFinal answer:  Rome. \n", profile=profile) == ("answered", "Rome.")


@BOTH
@pytest.mark.parametrize("said", ["\nFinal answer:", "\nFinal answer: \n", "\nSubquestion:\nGenerated answer: Paris."])
def test_label_without_text_is_unparsed(profile, said) -> None:
    assert outcome(said, profile=profile) == ("unparsed", "")


@BOTH
def test_empty_memory_is_stated_to_the_model(profile) -> None:
    reply, model = replay(FIRST, FINAL, edits=(), profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert reply.steps[0].retrieved == reply.steps[0].scores == ()
    assert model.prompts[1].endswith("\nRetrieved fact: there is none.")


CHECKED = "\nThe fact says otherwise, so the answer here is: Rome" + SECOND.removeprefix("\nIt disagrees: Rome")


@BOTH
def test_answer_of_the_self_check_is_recorded(profile) -> None:
    reply, _model = replay(FIRST, CHECKED, FINAL, profile=profile)
    assert [(step.kind, step.answer) for step in reply.steps] == [
        ("subquestion", "Rome"),
        ("subquestion", "Gualtieri"),
        ("final", ""),
    ]


@BOTH
def test_self_check_in_other_words_is_not_recorded(profile) -> None:
    reply, _model = replay(FIRST, SECOND, FINAL, profile=profile)
    assert [step.answer for step in reply.steps] == ["", "Gualtieri", ""]
    assert reply.text == "Gualtieri"


def test_hop_without_self_check_has_no_answer() -> None:
    reply, _model = replay(hop(1), profile="paper", max_calls=1)
    assert [step.answer for step in reply.steps] == [""]


@BOTH
def test_logical_step_is_recorded_without_a_look_up(profile) -> None:
    final = "\nIt does not disagree: Gualtieri\nLogical operation: both lists hold Gualtieri\nFinal answer: Gualtieri"
    reply, _model = replay(FIRST, SECOND, final, profile=profile)
    assert [(step.kind, step.text, step.answer) for step in reply.steps[1:]] == [
        ("subquestion", "Who is the mayor of Rome?", "Gualtieri"),
        ("operation", "both lists hold Gualtieri", ""),
        ("final", "Gualtieri", ""),
    ]
