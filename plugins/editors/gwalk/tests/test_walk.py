"""Replays of the walk with a scripted model: prompts, outcomes, and number of calls."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import Answer
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.editor import Gwalk
from ke_testing.fakes import ScriptedModel, make_session

SUBJECT = " [Mira Toll]"
PATH = "(country of citizenship)->(official language)->answer"
WORDS = " Which language is official there?"
OWN = " The official language of Boland is {}. Bolish"


def outcome(reply) -> tuple[str, str]:
    assert isinstance(reply, Answer)
    return reply.outcome, reply.text


def test_two_edited_hops_need_no_generated_answer(replay, ask) -> None:
    """Algorithm 1 with both hops in the graph: one call for the entity, one for the path, none for answers."""
    reply, model = replay(SUBJECT, PATH)
    assert outcome(reply) == ("answered", "Arabic")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subject", "Mira Toll", (), ""),
        ("relations", "country of citizenship, official language", (), ""),
        ("subquestion", "What is the country of Mira Toll?", ("mira",), "Boland"),
        ("subquestion", "Which official language has Boland?", ("boland",), "Arabic"),
        ("final", "Arabic", (), ""),
    ]
    assert model.prompts[0].endswith(f"\n\nQuestion: {ask.texts[0]}\nSubject:")
    assert model.prompts[1].endswith(f"\n\nQuestion: {ask.texts[0]}\nPath: Mira Toll->")
    assert reply.cost.calls == 2
    assert [len(step.scores) for step in reply.steps] == [len(step.retrieved) for step in reply.steps]
    assert all(score >= 0.6 for step in reply.steps for score in step.scores)


def test_model_answers_hops_without_an_edge(replay, edits, relations, edit_of) -> None:
    """The question is the relation's own, from another edit."""
    other = edit_of(relations[0], "Someone Else", "Boland")
    reply, model = replay(SUBJECT, PATH, " Mira Toll is a citizen of {}. Boland", edits=(other, edits[1]))
    assert outcome(reply) == ("answered", "Arabic")
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [(), ("boland",)]
    assert model.prompts[2].endswith("\nSubquestion: What is the country of Mira Toll?\nGenerated answer:")
    reply, _model = replay(SUBJECT, PATH, " Mira Toll is a citizen of {}. Cerland", OWN, edits=(other, edits[1]))
    assert outcome(reply) == ("answered", "Bolish")


def test_model_writes_the_question_of_an_unknown_relation(replay) -> None:
    reply, model = replay(SUBJECT, "(favourite colour)->answer", " What colour does she like?", " She likes {}. red")
    assert outcome(reply) == ("answered", "red")
    assert model.prompts[2].endswith("\n\nSubject: Mira Toll\nRelation: favourite colour\nQuestion:")
    assert model.prompts[3].endswith("\nSubquestion: What colour does she like?\nGenerated answer:")


def test_prompt_contains_the_previous_hops(replay) -> None:
    reply, model = replay(SUBJECT, f"(country of citizenship)->(colour){'->answer'}", WORDS, OWN)
    assert model.prompts[3].endswith(
        "\nSubquestion: What is the country of Mira Toll?\nKnown fact: Mira Toll is a citizen of Boland."
        f"\nSo the answer here is: Boland\nSubquestion:{WORDS}\nGenerated answer:"
    )
    assert reply.raw.endswith("Known fact: none\nSo the answer here is: Bolish")


def test_statement_gets_no_second_period(replay, edits) -> None:
    ended = tuple(evolve(edit, statement=f"{edit.statement}.") for edit in edits)
    assert replay(SUBJECT, PATH, edits=ended)[0].raw == replay(SUBJECT, PATH)[0].raw


def test_paper_profile_always_asks_the_model(replay) -> None:
    path = "(is a citizen of)->(The official language of is)->answer"
    reply, model = replay(SUBJECT, path, " She is from {}. Aland", OWN, profile="paper")
    assert outcome(reply) == ("answered", "Arabic")
    assert [request.temperature for request in model.requests] == [0.2, 0.2, 1.0, 1.0]
    assert [request.max_tokens for request in model.requests] == [20, 50, 50, 50]
    assert model.prompts[3].count("\nGenerated answer: She is from {}. Aland\nKnown fact: Mira Toll is a") == 1


def test_default_calls_are_greedy_and_one_line(replay) -> None:
    _reply, model = replay(SUBJECT, "(colour)->answer", WORDS, OWN)
    assert {(request.temperature, request.stop) for request in model.requests} == {(0.0, ("\n",))}


def test_neither_aliases_nor_own_edits_are_used_by_default(replay, ask) -> None:
    """Aliases of a benchmark's entities come from its answers."""
    gold = evolve(ask, own=("mira", "boland"))
    assert outcome(replay(SUBJECT, PATH, ask=gold)[0]) == outcome(replay(SUBJECT, PATH, ask=ask)[0])
    reply, _model = replay(" [Miranda Toll]", "(country of citizenship)->answer", " From {}. Aland")
    assert outcome(reply) == ("answered", "Aland")


def test_entity_is_requested_for_up_to_three_wordings(replay, ask) -> None:
    wordings = evolve(ask, texts=(ask.texts[0], "Of Mira Toll's country, which is the language?", "Third?", "Fourth?"))
    reply, model = replay(" [Nobody]", " [Mira Toll]", PATH, ask=wordings)
    assert outcome(reply) == ("answered", "Arabic")
    assert "Question: Of Mira Toll's" in model.prompts[1]
    assert f"Question: {ask.texts[0]}\nPath:" in model.prompts[2]
    reply, _model = replay(" [A]", " [B]", " [C]", "(colour)->answer", WORDS, OWN, ask=wordings)
    assert reply.steps[0].text == "C"


@pytest.mark.parametrize("text", ["", "   ", "[]"])
def test_missing_entity_is_unparsed(replay, text) -> None:
    reply, _model = replay(text)
    assert outcome(reply) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["unparsed"]


@pytest.mark.parametrize(
    "text", ["", "answer", "Boland", "country, language", "()->answer", "official language)->answer"]
)
def test_missing_relation_is_unparsed(replay, text) -> None:
    reply, _model = replay(SUBJECT, text)
    assert outcome(reply) == ("unparsed", "")
    assert reply.steps[-1].kind == "unparsed"


@pytest.mark.parametrize(("hops", "given"), [(5, {}), (3, {"max_hops": 2})])
def test_too_many_relations_is_hop_cap(replay, hops, given) -> None:
    reply, _model = replay(SUBJECT, "->".join(["(country of citizenship)"] * hops), **given)
    assert outcome(reply) == ("hop-cap", "")


def test_four_hops_use_at_most_twelve_calls(replay, ask) -> None:
    wordings = evolve(ask, texts=(ask.texts[0], "B?", "C?", "D?"))
    path = "->".join(["(colour)"] * 4)
    reply, model = replay(*[" [X]"] * 3, path, *[WORDS, OWN] * 4, ask=wordings)
    assert (outcome(reply), len(model.prompts)) == (("answered", "Bolish"), 12)


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_unparsable_model_ends_every_walk(profile, ask, edits) -> None:
    for said in ("and so on " * 200, "\n", "Question: who?", "(", "[[[", "{}. ", "->->->"):
        model = ScriptedModel(lambda _prompt, said=said: said)
        config = GwalkConfig(profile=profile, threshold="0.6")
        with Gwalk(config=config).edit(make_session(model), edits) as edited:
            (reply,) = edited.answer([ask])
        assert isinstance(reply, Answer)
        assert reply.outcome in ("unparsed", "length")
        assert len(model.prompts) <= 12


@pytest.mark.parametrize("at", [0, 1, 3])
def test_truncated_text_is_length(replay, at) -> None:
    script = [SUBJECT, "(colour)->answer", WORDS, OWN][: at + 1]
    script[at] = "(colour)->" * (at == 1) + "word " * 100
    reply, _model = replay(*script)
    assert outcome(reply) == ("length", "")


def test_complete_path_before_the_limit_counts(replay) -> None:
    reply, _model = replay(SUBJECT, f"{PATH}->{'word ' * 100}")
    assert outcome(reply) == ("answered", "Arabic")


@pytest.mark.parametrize("answer", ["", " Bolish", " {}. ", " The language is {}."])
def test_malformed_answer_is_unparsed_and_keeps_earlier_steps(replay, edits, answer) -> None:
    reply, _model = replay(SUBJECT, PATH, WORDS, answer, edits=edits[:1])
    assert outcome(reply) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["subject", "relations", "subquestion", "unparsed"]


PUBLISHED_PATH = "(is a citizen of)->(The official language of is)->answer"


@pytest.mark.parametrize("answer", ["", " Bolish", " The language is {}."])
def test_paper_profile_uses_the_previous_answer_after_a_malformed_one(replay, answer) -> None:
    reply, _model = replay(SUBJECT, PUBLISHED_PATH, " She is from {}. Aland", answer, profile="paper")
    assert outcome(reply) == ("answered", "Boland")
    assert [step.kind for step in reply.steps] == ["subject", "relations", "subquestion", "unparsed", "final"]
    reply, _model = replay(SUBJECT, PUBLISHED_PATH, answer, profile="paper")
    assert outcome(reply) == ("unparsed", "")


def test_empty_question_is_unparsed(replay) -> None:
    assert outcome(replay(SUBJECT, "(colour)->answer", "")[0]) == ("unparsed", "")


def test_empty_graph_leaves_all_answers_to_the_model(replay) -> None:
    reply, _model = replay(SUBJECT, "(citizenship)->answer", WORDS, " From {}. Aland", edits=())
    assert outcome(reply) == ("answered", "Aland")
    assert not any(step.retrieved for step in reply.steps)


class ScoreEncoder:
    """An encoder with a score for each phrase."""

    id = "given"

    def __init__(self, **scores):
        self.scores = scores

    def embed(self, texts):
        return np.array([[self.scores.get(text.split()[-1], 1.0), 0.0] for text in texts], dtype=np.float32)


@pytest.mark.parametrize(("score", "found"), [(0.84, False), (0.845, True), (0.85, True)])
def test_threshold_decides_whether_a_relation_is_found(replay, edits, score, found) -> None:
    """Below 0.845, the model writes the question."""
    vectors = ScoreEncoder(**{"phrase": score, "contriever-msmarco": 1.5})  # not of unit length
    options = {"threshold": "paper", "encoder": "facebook/contriever-msmarco", "vectors": vectors}
    script = [] if found else [WORDS, OWN]
    reply, _model = replay(SUBJECT, "(phrase)->answer", *script, edits=edits[:1], **options)
    assert outcome(reply) == ("answered", "Boland" if found else "Bolish")


def test_hidden_edges_are_not_used(replay, ask) -> None:
    hiding = evolve(ask, hidden=frozenset({"mira"}))
    reply, model = replay(SUBJECT, PATH, " Where is she from?", " She is from {}. Boland", ask=hiding)
    assert outcome(reply) == ("answered", "Arabic")
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [(), ("boland",)]
    assert "Known fact" not in model.prompts[2].rpartition("\n\n")[2]


def test_paper_profile_keeps_the_question_of_a_hidden_edge(replay, ask) -> None:
    texts = []
    for hidden in (frozenset(), frozenset({"mira"})):
        hiding = evolve(ask, hidden=hidden)
        reply, _model = replay(SUBJECT, "(is a citizen of)->answer", OWN, ask=hiding, profile="paper")
        texts.append([step.text for step in reply.steps if step.kind == "subquestion"])
    assert texts[0] == texts[1] != []


def test_malformed_answer_does_not_matter_if_the_graph_has_the_edge(replay) -> None:
    """Algorithm 1, lines 6 to 8: the edge overrules the model's answer."""
    script = (SUBJECT, "(country of citizenship)->answer", "Boland, I think")
    reply, _model = replay(*script, profile="algorithm-1")
    assert outcome(reply) == ("answered", "Boland")
    assert "Generated answer: Boland, I think" in reply.raw
    assert outcome(replay(*script, profile="paper", threshold="0.1")[0]) == ("unparsed", "")


def test_hop_with_an_edge_needs_no_generated_question(replay, relations, edit_of) -> None:
    bare = evolve(relations[0], question=None)
    edit = evolve(edit_of(bare, "Mira Toll", "Boland"), question=None)
    reply, _model = replay(SUBJECT, "(country of citizenship)->answer", "", edits=(edit,))
    assert outcome(reply) == ("answered", "Boland")
