"""The model gets the prompt of the request, and the prompt's parser extracts the answer."""

import pytest

from ke_core.engine.passthrough import read
from ke_core.plugin import PassthroughModel
from ke_core.spec.codec import from_json, to_json
from ke_core.spec.errors import ContextOverflow, UnsupportedChange
from ke_core.spec.prompts import Decoding, Parse, Prompt
from ke_core.spec.protocols import Edited
from ke_core.spec.requests import Generated, Likelihood, Question
from ke_core.spec.results import Answer, Cost, Failure, Scored
from ke_testing.fakes import EchoModel, ScriptedModel, make_session
from ke_testing.process import imported_by

LINE, MARKED = Parse(), Parse(after="Answer:")


def question(text="Q: capital of France?\nA:", **how) -> Question:
    prompt = Prompt(text=text, **how)
    return Question(id="a", case="c", query="q", texts=("capital of France?",), form="question", prompt=prompt)


def test_a_question_is_sent_unchanged_with_its_decoding(tmp_path):
    model = ScriptedModel([" Paris\nQ: and of Spain?"])
    direct = PassthroughModel(make_session(model, root=tmp_path), {"norm": 1.0})
    decoding = Decoding(max_tokens=5, stop=("\n",), temperature=0.5, top_k=3)
    (reply,) = direct.answer([question(decoding=decoding)])
    assert reply == Answer(text="Paris", raw=" Paris", cost=Cost(calls=1, prompt_tokens=5, tokens=1))
    (asked,) = model.requests
    assert (asked.prompt, asked.max_tokens, asked.stop, asked.temperature, asked.top_k) == (
        "Q: capital of France?\nA:", 5, ("\n",), 0.5, 3,
    )  # fmt: skip
    assert direct.details == {"norm": 1.0}
    assert isinstance(direct, Edited)


def test_prompt_text_is_not_an_answer(tmp_path):
    direct = PassthroughModel(make_session(ScriptedModel([" London"]), root=tmp_path))
    (reply,) = direct.answer([question("Is Paris the capital of France? The capital is")])
    assert (reply.text, reply.raw) == ("London", " London")


def test_a_likelihood_is_scored(tmp_path):
    ask = Likelihood(id="a", case="c", prompt="p", continuations=(" one", " three"))
    assert PassthroughModel(make_session(EchoModel(), root=tmp_path)).answer([ask]) == [
        Scored(logprobs=(-4.0, -6.0), tokens=(1, 1))
    ]


def test_a_prompt_that_is_too_long_is_a_failure(tmp_path):
    direct = PassthroughModel(make_session(ScriptedModel([ContextOverflow("too long")]), root=tmp_path))
    assert direct.answer([question()]) == [Failure(error="ContextOverflow", message="too long")]


@pytest.mark.parametrize(
    ("parse", "text", "finish", "outcome", "answer"),
    [
        (LINE, " Paris\nQ: next", "length", "answered", "Paris"),
        (LINE, " Paris", "stop", "answered", "Paris"),
        (LINE, " Paris", "eos", "answered", "Paris"),
        (
            LINE,
            " Paris, which is the",
            "length",
            "answered",
            "Paris, which is the",
        ),  # the text of a cloze is the answer
        (LINE, "  ", "eos", "unparsed", ""),
        (LINE, " ", "length", "length", ""),
        (MARKED, "I think. Answer: Paris\n", "length", "answered", "Paris"),
        (MARKED, "I think. Answer: Paris", "eos", "answered", "Paris"),
        (MARKED, "I think. Answer: Par", "length", "length", "Par"),  # a part of a name
        (
            MARKED,
            "I think. Answer:\nParis",
            "length",
            "length",
            "Paris",
        ),  # the line break before the answer is not its end
        (MARKED, "I think that", "length", "length", ""),
        (MARKED, "I think that", "stop", "unparsed", ""),
        (Parse(after="Answer:", until=""), "Answer: Paris", "length", "length", "Paris"),
        (Parse(until=""), "Paris\nor", "length", "answered", "Paris\nor"),
    ],
)
def test_outcomes_of_answers(parse, text, finish, outcome, answer):
    found = read(parse, Generated(text=text, finish=finish))
    assert (found.text, found.outcome, found.raw) == (answer, outcome, text)
    assert not found.cut or outcome == "answered"


@pytest.mark.parametrize(
    ("parse", "text", "finish", "cut"),
    [
        (LINE, " Paris\nQ: next", "length", False),
        (LINE, " Paris, which is the", "length", True),
        (LINE, " Paris", "stop", False),
        (MARKED, "I think. Answer: Paris\n", "length", False),
        (Parse(until=""), "Paris\nor", "length", True),
        (Parse(until=""), "Paris\nor", "eos", False),
    ],
)
def test_an_answer_at_the_token_limit_is_marked(parse, text, finish, cut):
    assert read(parse, Generated(text=text, finish=finish)).cut == cut


def test_only_truncated_answers_record_the_field_cut():
    assert "cut" not in to_json(Answer(text="Paris"))
    assert from_json(to_json(Answer(text="Paris", cut=True)), Answer, of="an answer").cut


def test_weight_edits_cannot_be_changed(tmp_path):
    direct = PassthroughModel(make_session(EchoModel(), root=tmp_path))
    with pytest.raises(UnsupportedChange):
        direct.change(remove=["e1"])


def test_the_plugin_facade_imports_neither_torch_nor_network_code():
    heavy = ("torch", "transformers", "numpy", "urllib.request")
    assert imported_by("import ke_core.plugin", *heavy, "sqlite3") == []
    assert imported_by("import ke_core.engine.batching", *heavy) == []
