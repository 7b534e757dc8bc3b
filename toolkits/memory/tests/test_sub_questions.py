"""The walk over the sub-questions of a dataset: hops, outcomes and recorded steps."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Answer, BadConfig, Failure, Likelihood, Material, Step, SubQuestion
from ke_memory.plugin import SubQuestionResult, SubQuestionWalk, dataset_sub_questions
from ke_testing.examples import MOVE_TOWER, question
from ke_testing.fakes import EchoModel, make_session

ASK = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
CITY, NEW, OLD = (SubQuestion(question=f"{name}?", answer=name, statement=name) for name in ("Paris", "G", "H"))
HOPS = {f"{ASK.case}/{ASK.query}": {"after": (CITY, NEW), "before": (CITY, OLD)}}


def plain(_ask):
    """Every given answer stands."""

    def hop(given, said):
        step = Step(kind="subquestion", text=given.question, answer=given.answer)
        return SubQuestionResult(steps=(step, Step(kind="note", text=said)), text=f" {given.answer}")
        yield

    return hop


def walked(ask=ASK, *, procedure=plain, hops=HOPS, cap=None):
    (reply,) = make_session(EchoModel()).engine.answer(
        SubQuestionWalk(hops=hops, hop_procedure=procedure, cap=cap).solve, [ask]
    )
    return reply


def test_answer_is_that_of_the_last_hop() -> None:
    reply = walked()
    assert (reply.text, reply.raw, reply.outcome) == ("G", " Paris G", "answered")
    assert [(step.kind, step.text) for step in reply.steps] == [
        ("subquestion", "Paris?"), ("note", ""), ("subquestion", "G?"), ("note", " Paris"), ("final", "G"),
    ]  # fmt: skip


def test_control_uses_the_hops_before_the_edits() -> None:
    assert walked(evolve(ASK, own=())).text == "H"


@pytest.mark.parametrize("outcome", ["unparsed", "length", "hop-cap"])
def test_hop_without_an_answer_ends_the_walk(outcome) -> None:
    def lost(_ask):
        def hop(_given, _said):
            return SubQuestionResult(steps=(Step(kind="unparsed", text="?"),), text=" ?", outcome=outcome)
            yield

        return hop

    assert walked(procedure=lost) == Answer(
        text="", raw=" ?", steps=(Step(kind="unparsed", text="?"),), outcome=outcome
    )


def test_question_with_more_hops_than_the_cap_makes_no_call() -> None:
    assert walked(cap=2).outcome == "answered"
    reply = walked(cap=1)
    assert (reply.outcome, reply.steps) == ("hop-cap", (Step(kind="hop-cap", text="2 sub-questions"),))


def test_question_without_sub_questions_and_likelihood_raise() -> None:
    assert walked(hops={}) == Failure(
        error="BadData",
        message="the dataset has no sub-questions for question case/Who is the mayor of the city of the Eiffel Tower?",
    )
    assert walked(Likelihood(id="l", case="c", prompt="p", continuations=(" a",))).unscored


def test_dataset_without_sub_questions_error_names_the_option() -> None:
    with pytest.raises(BadConfig, match=r"toy\.decomposition=oracle: this dataset has no sub-questions"):
        dataset_sub_questions(make_session(EchoModel()), editor="toy")
    material = {SUB_QUESTIONS: Material(value=HOPS, oracle=True)}
    assert dataset_sub_questions(make_session(EchoModel(), material=material), editor="toy") == HOPS
