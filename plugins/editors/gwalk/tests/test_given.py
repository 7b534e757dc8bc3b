"""The walk through a question that the benchmark has taken apart: only linking and finding are left."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Answer, Failure, Likelihood, Material, SubQuestion
from ke_plugin_gwalk import GwalkConfig, oracle


def sub_question(question: str, answer: str) -> SubQuestion:
    return SubQuestion(question=question, answer=answer, statement=f"It is {answer}")


HOPS = (
    sub_question("What is the country of Mira Toll?", "Aland"),
    sub_question("Which language has Boland?", "Bolish"),
)
OLD = (HOPS[0], sub_question("Which language has Aland?", "Alish"))
FIRST, SECOND = (" [Mira Toll]", "(country of citizenship)->answer"), (" [Boland]", "(official language)->answer")


@pytest.fixture
def given(replay, ask):
    """A replay with sub-questions; ``own`` of an edited case."""

    def run(*script, own=("mira",), hops=HOPS, **options):
        value = {f"{ask.case}/{ask.query}": {"after": hops, "before": OLD}}
        material = {SUB_QUESTIONS: Material(value=value, oracle=True)}
        asked = options.pop("ask", evolve(ask, own=own))
        return replay(*script, ask=asked, material=material, decomposition="oracle", **options)

    return run


def test_edited_hops_come_from_the_graph_and_others_from_before_the_edits(given, edits) -> None:
    reply, model = given(*FIRST, *SECOND)
    assert [(step.text, step.retrieved, step.answer) for step in reply.steps] == [
        (HOPS[0].question, ("mira",), "Boland"),
        (HOPS[1].question, ("boland",), "Arabic"),
        ("Arabic", (), ""),
    ]
    assert reply.text == "Arabic"
    assert f"Question: {HOPS[1].question}\nPath: Boland->" in model.prompts[3]
    reply, _model = given(*FIRST, *SECOND, edits=edits[:1])
    assert (reply.text, [step.retrieved for step in reply.steps]) == ("Bolish", [("mira",), (), ()])


def test_a_hop_has_one_relation_however_far_the_model_would_go_on(given) -> None:
    endless = "(country of citizenship)" + "->(official language)" * 9
    reply, model = given(FIRST[0], endless, *SECOND)
    assert reply.text == "Arabic"
    assert "->" in model.requests[1].stop


def test_each_hop_stands_for_itself(given, edits) -> None:
    reply, _model = given(" [Nobody]", "(colour)->answer", *SECOND)
    assert (reply.text, [step.answer for step in reply.steps]) == ("Arabic", ["Aland", "Arabic", ""])


def test_a_control_is_asked_the_hops_of_the_old_world(given) -> None:
    reply, _model = given(*FIRST, " [Aland]", SECOND[1], own=())
    assert (reply.steps[1].text, reply.text) == (OLD[1].question, "Alish")


def test_what_cannot_be_read_or_is_too_long_ends_it(given) -> None:
    reply, _model = given(*FIRST, " [Boland]", "no path")
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])
    reply, _model = given(max_hops=1)
    assert (reply.outcome, reply.text) == ("hop-cap", "")


def test_questions_that_were_not_taken_apart_fail_and_scores_are_declined(given, ask) -> None:
    reply, _model = given(ask=evolve(ask, query="another"))
    assert isinstance(reply, Failure)
    reply, _model = given(ask=Likelihood(id="l", case="c", prompt="p", continuations=(" a",)))
    assert reply.unscored


def test_v16_sub_questions_are_gold_material_and_named(given) -> None:
    assert oracle(GwalkConfig(decomposition="oracle")) == (SUB_QUESTIONS,)
    assert oracle(GwalkConfig(decomposition="oracle", aliases="oracle")) == ("aliases", SUB_QUESTIONS)
    reply, _model = given(*FIRST, *SECOND)
    assert isinstance(reply, Answer)
