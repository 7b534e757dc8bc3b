"""Replays of the walk with a scripted model: how it goes on, how it ends, and with how many calls."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import Answer, Failure, Likelihood
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


def test_two_edited_hops_by_the_graph_alone(replay, ask) -> None:
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


def test_an_edit_is_retrieved_first_for_its_own_question_and_all_are_for_the_case(replay) -> None:
    """What the multi-hop metric counts as retrieval (Table 14): ids of the edges that were used, with scores."""
    reply, _model = replay(SUBJECT, PATH)
    names = [name for step in reply.steps for name in step.retrieved]
    assert names[0] == "mira"
    assert {"mira", "boland"} <= set(names)
    assert all(len(step.retrieved) == len(step.scores) for step in reply.steps)
    assert all(score >= 0.6 for step in reply.steps for score in step.scores)


def test_where_the_graph_has_no_edge_the_model_answers(replay, edits, relations, edit_of) -> None:
    """Acceptance check 10: without the first edit the model's own answer stands, with the relation's question."""
    other = edit_of(relations[0], "Someone Else", "Boland")
    reply, model = replay(SUBJECT, PATH, " Mira Toll is a citizen of {}. Boland", edits=(other, edits[1]))
    assert outcome(reply) == ("answered", "Arabic")
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [(), ("boland",)]
    assert model.prompts[2].endswith("\nSubquestion: What is the country of Mira Toll?\nGenerated answer:")
    reply, _model = replay(SUBJECT, PATH, " Mira Toll is a citizen of {}. Cerland", OWN, edits=(other, edits[1]))
    assert outcome(reply) == ("answered", "Bolish")


def test_a_relation_of_no_edit_is_asked_in_the_models_words(replay) -> None:
    reply, model = replay(SUBJECT, "(favourite colour)->answer", " What colour does she like?", " She likes {}. red")
    assert outcome(reply) == ("answered", "red")
    assert model.prompts[2].endswith("\n\nSubject: Mira Toll\nRelation: favourite colour\nQuestion:")
    assert model.prompts[3].endswith("\nSubquestion: What colour does she like?\nGenerated answer:")


def test_the_transcript_of_a_hop_stands_before_the_next(replay) -> None:
    reply, model = replay(SUBJECT, f"(country of citizenship)->(colour){'->answer'}", WORDS, OWN)
    assert model.prompts[3].endswith(
        "\nSubquestion: What is the country of Mira Toll?\nKnown fact: Mira Toll is a citizen of Boland."
        f"\nSo the answer here is: Boland\nSubquestion:{WORDS}\nGenerated answer:"
    )
    assert reply.raw.endswith("Known fact: none\nSo the answer here is: Bolish")


def test_a_statement_with_a_full_stop_gets_no_second_one(replay, edits) -> None:
    ended = tuple(evolve(edit, statement=f"{edit.statement}.") for edit in edits)
    assert replay(SUBJECT, PATH, edits=ended)[0].raw == replay(SUBJECT, PATH)[0].raw


def test_the_published_profile_asks_even_where_the_graph_overrules(replay) -> None:
    path = "(is a citizen of)->(The official language of is)->answer"
    reply, model = replay(SUBJECT, path, " She is from {}. Aland", OWN, profile="published")
    assert outcome(reply) == ("answered", "Arabic")
    assert [request.temperature for request in model.requests] == [0.2, 0.2, 1.0, 1.0]
    assert [request.max_tokens for request in model.requests] == [20, 50, 50, 50]
    assert model.prompts[3].count("\nGenerated answer: She is from {}. Aland\nKnown fact: Mira Toll is a") == 1


def test_every_call_is_greedy_and_one_line(replay) -> None:
    _reply, model = replay(SUBJECT, "(colour)->answer", WORDS, OWN)
    assert {(request.temperature, request.stop) for request in model.requests} == {(0.0, ("\n",))}


def test_v16_neither_aliases_nor_answers_are_used_unless_asked_for(replay, ask) -> None:
    """Aliases of a benchmark's entities come from its answers: the graph holds labels alone."""
    gold = evolve(ask, own=("mira", "boland"))
    assert outcome(replay(SUBJECT, PATH, ask=gold)[0]) == outcome(replay(SUBJECT, PATH, ask=ask)[0])
    reply, _model = replay(" [Miranda Toll]", "(country of citizenship)->answer", " From {}. Aland")
    assert outcome(reply) == ("answered", "Aland")


def test_the_entity_is_looked_for_in_up_to_three_wordings(replay, ask) -> None:
    wordings = evolve(ask, texts=(ask.texts[0], "Of Mira Toll's country, which is the language?", "Third?", "Fourth?"))
    reply, model = replay(" [Nobody]", " [Mira Toll]", PATH, ask=wordings)
    assert outcome(reply) == ("answered", "Arabic")
    assert "Question: Of Mira Toll's" in model.prompts[1]
    assert f"Question: {ask.texts[0]}\nPath:" in model.prompts[2]
    reply, _model = replay(" [A]", " [B]", " [C]", "(colour)->answer", WORDS, OWN, ask=wordings)
    assert reply.steps[0].text == "C"


@pytest.mark.parametrize("text", ["", "   ", "[]"])
def test_no_entity_is_unparsed(replay, text) -> None:
    reply, _model = replay(text)
    assert outcome(reply) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["unparsed"]


@pytest.mark.parametrize(
    "text", ["", "answer", "Boland", "country, language", "()->answer", "official language)->answer"]
)
def test_no_relation_is_unparsed(replay, text) -> None:
    reply, _model = replay(SUBJECT, text)
    assert outcome(reply) == ("unparsed", "")
    assert reply.steps[-1].kind == "unparsed"


@pytest.mark.parametrize(("hops", "given"), [(5, {}), (3, {"max_hops": 2})])
def test_more_relations_than_the_cap_is_hop_cap(replay, hops, given) -> None:
    reply, _model = replay(SUBJECT, "->".join(["(country of citizenship)"] * hops), **given)
    assert outcome(reply) == ("hop-cap", "")


def test_four_hops_take_at_most_twelve_calls(replay, ask) -> None:
    wordings = evolve(ask, texts=(ask.texts[0], "B?", "C?", "D?"))
    path = "->".join(["(colour)"] * 4)
    reply, model = replay(*[" [X]"] * 3, path, *[WORDS, OWN] * 4, ask=wordings)
    assert (outcome(reply), len(model.prompts)) == (("answered", "Bolish"), 12)


@pytest.mark.parametrize("profile", ["greedy", "published"])
def test_a_model_that_never_writes_what_it_should_ends(profile, ask, edits) -> None:
    for said in ("and so on " * 200, "\n", "Question: who?", "(", "[[[", "{}. ", "->->->"):
        model = ScriptedModel(lambda _prompt, said=said: said)
        config = GwalkConfig(profile=profile, threshold="0.6")
        with Gwalk(config=config).edit(make_session(model), edits) as edited:
            (reply,) = edited.answer([ask])
        assert isinstance(reply, Answer)
        assert reply.outcome in ("unparsed", "length")
        assert len(model.prompts) <= 12


@pytest.mark.parametrize("at", [0, 1, 3])
def test_what_is_cut_by_the_limit_is_length(replay, at) -> None:
    script = [SUBJECT, "(colour)->answer", WORDS, OWN][: at + 1]
    script[at] = "(colour)->" * (at == 1) + "word " * 100
    reply, _model = replay(*script)
    assert outcome(reply) == ("length", "")


def test_a_path_that_says_answer_before_the_limit_counts(replay) -> None:
    reply, _model = replay(SUBJECT, f"{PATH}->{'word ' * 100}")
    assert outcome(reply) == ("answered", "Arabic")


@pytest.mark.parametrize("answer", ["", " Bolish", " {}. ", " The language is {}."])
def test_an_answer_without_its_form_is_unparsed_and_keeps_the_steps_before_it(replay, edits, answer) -> None:
    reply, _model = replay(SUBJECT, PATH, WORDS, answer, edits=edits[:1])
    assert outcome(reply) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["subject", "relations", "subquestion", "unparsed"]


PUBLISHED_PATH = "(is a citizen of)->(The official language of is)->answer"


@pytest.mark.parametrize("answer", ["", " Bolish", " The language is {}."])
def test_as_published_the_answer_before_one_without_its_form_stands(replay, answer) -> None:
    reply, _model = replay(SUBJECT, PUBLISHED_PATH, " She is from {}. Aland", answer, profile="published")
    assert outcome(reply) == ("answered", "Boland")
    assert [step.kind for step in reply.steps] == ["subject", "relations", "subquestion", "unparsed", "final"]
    reply, _model = replay(SUBJECT, PUBLISHED_PATH, answer, profile="published")
    assert outcome(reply) == ("unparsed", "")


def test_a_question_left_blank_is_unparsed(replay) -> None:
    assert outcome(replay(SUBJECT, "(colour)->answer", "")[0]) == ("unparsed", "")


def test_an_empty_memory_leaves_the_model_to_itself(replay) -> None:
    reply, _model = replay(SUBJECT, "(citizenship)->answer", WORDS, " From {}. Aland", edits=())
    assert outcome(reply) == ("answered", "Aland")
    assert not any(step.retrieved for step in reply.steps)


class Given:
    """An encoder with a score for each phrase."""

    id = "given"

    def __init__(self, **scores):
        self.scores = scores

    def embed(self, texts):
        return np.array([[self.scores.get(text.split()[-1], 1.0), 0.0] for text in texts], dtype=np.float32)


@pytest.mark.parametrize(("score", "found"), [(0.84, False), (0.845, True), (0.85, True)])
def test_the_threshold_decides_whether_a_relation_is_found(replay, edits, score, found) -> None:
    """Acceptance check 10: 0.84 falls back to a question in words, 0.85 does not."""
    vectors = Given(**{"phrase": score, "contriever-msmarco": 1.5})  # vectors of no unit length
    options = {"threshold": "published", "encoder": "facebook/contriever-msmarco", "vectors": vectors}
    script = [] if found else [WORDS, OWN]
    reply, _model = replay(SUBJECT, "(phrase)->answer", *script, edits=edits[:1], **options)
    assert outcome(reply) == ("answered", "Boland" if found else "Bolish")


def test_hidden_edges_are_absent(replay, ask) -> None:
    hiding = evolve(ask, hidden=frozenset({"mira"}))
    reply, model = replay(SUBJECT, PATH, " Where is she from?", " She is from {}. Boland", ask=hiding)
    assert outcome(reply) == ("answered", "Arabic")
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [(), ("boland",)]
    assert "Known fact" not in model.prompts[2].rpartition("\n\n")[2]


def test_published_a_hidden_edge_keeps_its_relations_question(replay, ask) -> None:
    """Only the edge is hidden there: an accepted relation has its fixed question (section 9.3 of the protocol)."""
    texts = []
    for hidden in (frozenset(), frozenset({"mira"})):
        hiding = evolve(ask, hidden=hidden)
        reply, _model = replay(SUBJECT, "(is a citizen of)->answer", OWN, ask=hiding, profile="published")
        texts.append([step.text for step in reply.steps if step.kind == "subquestion"])
    assert texts[0] == texts[1] != []


@pytest.mark.parametrize("at", range(4))
def test_an_error_of_the_model_is_a_failure(replay, at) -> None:
    script = [SUBJECT, "(colour)->answer", WORDS, OWN][:at]
    reply, _model = replay(*script, ConnectionError("gone"))
    assert reply == Failure(error="ConnectionError", message="gone")


def test_log_probabilities_are_declined(replay) -> None:
    reply, _model = replay(ask=Likelihood(id="l", case="c", prompt="p", continuations=(" a",)))
    assert isinstance(reply, Failure)
    assert reply.unscored


def test_an_unreadable_answer_loses_no_hop_that_the_graph_decides(replay) -> None:
    """Algorithm 1, lines 6 to 8: the model's answer gives way to the edge, whatever it says."""
    script = (SUBJECT, "(country of citizenship)->answer", "Boland, I think")
    reply, _model = replay(*script, profile="paper")
    assert outcome(reply) == ("answered", "Boland")
    assert "Generated answer: Boland, I think" in reply.raw
    assert outcome(replay(*script, profile="published", threshold="0.1")[0]) == ("unparsed", "")


def test_a_hop_that_the_graph_decides_needs_no_question_in_words(replay, relations, edit_of) -> None:
    bare = evolve(relations[0], question=None)
    edit = evolve(edit_of(bare, "Mira Toll", "Boland"), question=None)
    reply, _model = replay(SUBJECT, "(country of citizenship)->answer", "", edits=(edit,))
    assert outcome(reply) == ("answered", "Boland")
