"""Shared code of in-context methods: choice of facts, wording, position in the prompt."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import Answer, Failure, Likelihood, Step
from ke_memory.plugin import InContextModel, QuestionContext, before_prompt, sentence
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import EchoModel, make_session

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id, "withheld"))
TOWER, GATE = MOVE_TOWER.statement, MOVE_GATE.statement


class Telling(InContextModel):
    """Answers with the facts that it is shown."""

    def solve(self, ask):
        shown = yield from self.question_context(ask)
        return shown.with_steps(Answer(text=shown.sentences))


def telling(edits, choice, k=1):
    return Telling(make_session(EchoModel()), edits, choice=choice, k=k, encoder="words")


def told(choice, ask=ASK, edits=(MOVE_GATE, MOVE_TOWER), k=1):
    (reply,) = telling(edits, choice, k).answer([ask])
    return reply.text


@pytest.mark.parametrize(
    ("choice", "k", "facts"),
    [
        ("own", 1, (TOWER,)),
        ("all", 1, (GATE, TOWER)),
        ("retrieved", 1, (TOWER,)),
        ("retrieved", 9, (TOWER, GATE)),
        ("none", 1, ()),
    ],
)
def test_choice_determines_the_shown_facts(choice, k, facts) -> None:
    assert told(choice, k=k) == " ".join(f"{fact}." for fact in facts)


@pytest.mark.parametrize("choice", ["own", "all", "retrieved", "none"])
def test_only_hidden_facts_are_omitted(choice) -> None:
    assert GATE not in told(choice, evolve(ASK, hidden=frozenset({MOVE_GATE.id})), k=2)
    shown = told(choice, evolve(ASK, hidden=frozenset({MOVE_GATE.id})), k=2)
    assert shown == ("" if choice == "none" else f"{TOWER}.")


@pytest.mark.parametrize("choice", ["all", "retrieved"])
def test_facts_are_hidden_by_id_not_by_text(choice) -> None:
    ask = evolve(ASK, hidden=frozenset({MOVE_TOWER.id}))
    assert told(choice, ask, edits=(MOVE_TOWER, evolve(MOVE_TOWER, id="twin")), k=2) == f"{TOWER}."


@pytest.mark.parametrize("choice", ["all", "retrieved"])
def test_facts_of_other_cases_are_shown(choice) -> None:
    assert GATE in told(choice, k=2)


def test_order_of_own_and_of_all_facts() -> None:
    both = evolve(ASK, own=(MOVE_TOWER.id, MOVE_GATE.id))
    assert told("own", both) == f"{TOWER}. {GATE}."
    assert told("all", both) == f"{GATE}. {TOWER}."


def test_facts_are_unique_and_can_be_removed() -> None:
    model = telling([MOVE_TOWER, MOVE_TOWER], "retrieved", k=3)
    assert model.details == {"facts": 1, "shown": "retrieved", "k": 3, "encoder": "fake:words-256"}
    model.change(add=[MOVE_GATE], remove=[MOVE_TOWER.id, "unknown"])
    assert model.answer([ASK])[0].text == f"{GATE}."
    assert telling([MOVE_TOWER], "all").details == {"facts": 1, "shown": "all"}


def test_look_up_step_precedes_the_steps_of_the_method() -> None:
    shown = QuestionContext(facts=(), steps=(Step(kind="retrieved", text="q"),))
    assert [step.kind for step in shown.with_steps(Answer(text="", steps=(Step(kind="own", text=""),))).steps] == [
        "retrieved",
        "own",
    ]
    assert shown.with_steps(Failure(error="E", message="m")) == Failure(error="E", message="m")


@pytest.mark.parametrize("choice", ["own", "all", "none"])
def test_encoder_is_not_loaded_without_retrieval(choice) -> None:
    session = evolve(make_session(EchoModel()), encoder=None)
    assert Telling(session, [MOVE_TOWER], choice=choice, k=1, encoder="x").details["facts"] == 1


def test_likelihood_without_wording_is_searched_by_its_prompt() -> None:
    ask = Likelihood(id="l", case="c", prompt="The Eiffel Tower is in", continuations=(" Rome",))
    assert told("retrieved", ask) == f"{TOWER}."


@pytest.mark.parametrize(("fact", "expected"), [("A is B", "A is B."), ("A is B.", "A is B."), ("Is A B?", "Is A B?")])
def test_fact_ends_with_one_period(fact, expected) -> None:
    assert sentence(fact) == expected


def test_before_prompt_changes_only_the_prompt() -> None:
    likelihood = Likelihood(id="l", case="c", prompt="p", continuations=(" a",))
    assert before_prompt(likelihood, "x ") == evolve(likelihood, prompt="x p")
    put = before_prompt(ASK, "x ")
    assert put.prompt == evolve(ASK.prompt, text=f"x {ASK.prompt.text}")
    assert evolve(put, prompt=ASK.prompt) == ASK


def test_whole_text_is_searched_by_its_continuation() -> None:
    ask = Likelihood(id="l", case="c", texts=("",), continuations=("The Eiffel Tower is in Rome.",))
    assert told("retrieved", ask) == f"{TOWER}."
