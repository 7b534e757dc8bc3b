"""The walk over the benchmark's sub-questions (``decomposition=oracle``)."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import SUB_QUESTIONS, Material, SubQuestion
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
    """Return a replay with sub-questions; ``own`` of an edited case."""

    def run(*script, own=("mira",), hops=HOPS, **options):
        value = {f"{ask.case}/{ask.query}": {"after": hops, "before": OLD}}
        material = {SUB_QUESTIONS: Material(value=value, oracle=True)}
        return replay(*script, ask=evolve(ask, own=own), material=material, decomposition="oracle", **options)

    return run


def test_hops_without_an_edge_use_the_given_answer(given, edits) -> None:
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


def test_only_the_first_relation_of_a_hop_is_used(given) -> None:
    endless = "(country of citizenship)" + "->(official language)" * 9
    reply, model = given(FIRST[0], endless, *SECOND)
    assert reply.text == "Arabic"
    assert "->" in model.requests[1].stop


def test_hops_are_independent(given, edits) -> None:
    reply, _model = given(" [Nobody]", "(colour)->answer", *SECOND)
    assert (reply.text, [step.answer for step in reply.steps]) == ("Arabic", ["Aland", "Arabic", ""])


def test_control_uses_the_hops_before_the_edits(given) -> None:
    reply, _model = given(*FIRST, " [Aland]", SECOND[1], own=())
    assert (reply.steps[1].text, reply.text) == (OLD[1].question, "Alish")


def test_unparsed_hop_and_hop_cap_end_the_walk(given) -> None:
    reply, _model = given(*FIRST, " [Boland]", "no path")
    assert (reply.outcome, [step.kind for step in reply.steps]) == ("unparsed", ["subquestion", "unparsed"])
    reply, _model = given(max_hops=1)
    assert (reply.outcome, reply.text) == ("hop-cap", "")


def test_sub_questions_are_declared_as_gold_material() -> None:
    assert oracle(GwalkConfig(decomposition="oracle")) == (SUB_QUESTIONS,)
    assert oracle(GwalkConfig(decomposition="oracle", aliases="oracle")) == ("aliases", SUB_QUESTIONS)
