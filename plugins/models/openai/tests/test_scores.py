"""Log-probabilities come from echoed completions, completely or not at all."""

import pytest

from ke_core.app import BatchingEngine
from ke_core.engine.cache import CompletionCache
from ke_core.plugin import Failure, NoLikelihood, Score, Scored

ASK = Score(prompt="The tower is in", continuations=(" Rome", " Paris"))


def echo(tokens, logprobs=None, **more):
    logprobs = [None, *(-float(n) for n in range(1, len(tokens)))] if logprobs is None else logprobs
    given = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": [0] * len(tokens), **more}
    return {"choices": [{"text": "".join(tokens), "logprobs": given, "finish_reason": "length"}], "usage": {}}


def test_the_tokens_of_the_continuation_are_summed_without_the_one_generated(serve, ask):
    server = serve(lambda _n, body: echo(["The", " tower", " is", " in", " Ro", "me", "."])
                   if "Rome" in body["prompt"] else echo(["The", " tower", " is", " in", " Paris", "!"]))  # fmt: skip
    (scored,) = ask(server, concurrency=1).score([ASK])
    assert scored.logprobs == (-4.0 - 5.0, -4.0)
    assert scored.tokens == (2, 1)
    path, sent = server.asked[0]
    assert path == "/v1/completions"
    assert (sent["prompt"], sent["echo"], sent["logprobs"], sent["max_tokens"]) == ("The tower is in Rome", True, 1, 1)


def test_a_beginning_of_text_token_does_not_shift_the_scores(serve, ask):
    server = serve(lambda _n, body: echo(["<s>", body["prompt"][:15], body["prompt"][15:], "."], [None, -9, -0.5, -7]))
    (scored,) = ask(server).score([ASK])
    assert scored.logprobs == (-0.5, -0.5)


TOKENS = ["The tower is in", " Ro", "me", "."]


@pytest.mark.parametrize(
    ("tops", "matches"),
    [
        ([None, {" Ro": -1.0}, {"me": -2.0, "ma": -2.5}, {".": -3.0}], 2),
        ([None, {" Ro": -1.0}, {"me": -2.0, "ma": -0.5}, {".": -3.0}], 1),
        ([None, {" Pa": -0.1}, {"me": -2.0}, {".": -3.0}], 1),
        ([None, {" Pa": -0.1}, {"ma": -0.5}, {".": -3.0}], 0),
        ([None, {" Ro": -1.0}, None, {".": -3.0}], None),
        ([None, {" Ro": -1.0}, {}, {".": -3.0}], None),
        ([None, {" Ro": -1.0}], None),
        (None, None),
    ],
)
def test_matches_compares_each_token_with_the_most_probable_one(serve, ask, tops, matches):
    answer = echo(TOKENS, **({} if tops is None else {"top_logprobs": tops}))
    (scored,) = ask(serve(answer)).score([Score(prompt="The tower is in", continuations=(" Rome",))])
    assert scored == Scored(logprobs=(-3.0,), tokens=(2,), matches=(matches,))


def test_each_continuation_can_have_its_own_prompt(serve, ask):
    server = serve(lambda _n, body: echo([body["prompt"][:-5], " Rome", "."], [-9, -float(len(body["prompt"])), -7]))
    (scored,) = ask(server, concurrency=1).score([Score(prompts=("It is in", "He saw"), continuations=(" Rome",) * 2)])
    assert server.prompts == ["It is in Rome", "He saw Rome"]
    assert scored.logprobs == (-13.0, -11.0)


def test_a_whole_text_needs_the_log_probability_of_its_first_token(serve, ask):
    text = "The tower is in Rome"
    without = echo([text, "."])
    (error,) = ask(serve(without)).score([Score(continuations=(text,))])
    assert isinstance(error, NoLikelihood)
    (scored,) = ask(serve(echo(["<s>", text, "."], [None, -8.5, -7]))).score([Score(continuations=(text,))])
    assert scored.logprobs == (-8.5,)


MISSPELLED = (
    ("The city of Łódź is in", ("The city of ", "\ufffd", "\ufffd", "ód", "ź", " is in", " Pol", "and", ".")),
    ("The city of Łódź is in", ("The city of ", "", "Łó", "dź", " is in", " Pol", "and", ".")),
    ("The city of Łódź is in", ("TheĠcityĠofĠÅģÃ³dÅº", "Ġis", "Ġin", " Pol", "and", ".")),
)


@pytest.mark.parametrize(("prompt", "tokens"), MISSPELLED)
def test_a_prompt_with_differently_spelled_tokens_is_scored(serve, ask, prompt, tokens):
    answer = echo(list(tokens))
    answer["choices"][0]["text"] = f"{prompt} Poland."
    (scored,) = ask(serve(answer)).score([Score(prompt=prompt, continuations=(" Poland",))])
    assert scored == Scored(logprobs=(-float(2 * len(tokens) - 5),), tokens=(2,))


@pytest.mark.parametrize("parts", [(" \ufffd", "\ufffd", "ódź"), ("", "", " Łódź"), (" Ł", "ódź")])
def test_a_continuation_with_differently_spelled_tokens_is_scored(serve, ask, parts):
    answer = echo(["It is in", *parts, "."])
    answer["choices"][0]["text"] = "It is in Łódź."
    (scored,) = ask(serve(answer)).score([Score(prompt="It is in", continuations=(" Łódź",))])
    assert scored == Scored(logprobs=(-float(sum(range(1, len(parts) + 1))),), tokens=(len(parts),))


def test_tokens_that_do_not_spell_the_text_are_an_error(serve, ask):
    answer = echo(["ItĠisĠin", "ĠÅģÃ³dÅº", "."])
    answer["choices"][0]["text"] = "It is in Łódź."
    (error,) = ask(serve(answer)).score([Score(prompt="It is in", continuations=(" Łódź",))])
    assert "tokens do not spell the text" in str(error)


def test_continuations_are_kept_one_by_one(serve, ask):
    """Requests that were charged before a failure or an interrupt are not repeated."""
    sick = [True]

    def answer(_n, body):
        if body["prompt"].endswith("C") and sick[0]:
            return 400, {"error": {"message": "no"}}, {}
        return echo([body["prompt"][:15], body["prompt"][15:], "."], [None, -ord(body["prompt"][-1]), -7])

    def procedure():
        return (yield Score(prompt="The tower is in", continuations=tuple(f" {letter}" for letter in "ABCDE")))

    server, cache = serve(answer), CompletionCache()
    engine = BatchingEngine(ask(server), cache=cache)
    assert isinstance(engine.run({"a": procedure()})["a"], Failure)
    assert len(server.asked) == 5
    sick[0] = False
    assert engine.run({"a": procedure()}) == {
        "a": Scored(logprobs=tuple(map(float, range(-65, -70, -1))), tokens=(1,) * 5)
    }
    assert server.prompts[5:] == ["The tower is in C"]
    cache.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"choices": [{"text": "The tower is in Rome."}]}, "ignores 'logprobs'"),
        ({"choices": [{"text": ".", "logprobs": None}]}, "ignores 'logprobs'"),
        ({"choices": [{"text": ".", "logprobs": {"content": []}}]}, "ignores 'logprobs'"),
        (echo(["."], [-0.1]), "ignores 'echo'"),
        (echo(["The tower", " is in R", "ome"]), "crosses the end of the prompt"),
        (echo(["The tower", " is in", " Rom", "e."]), "crosses the end of the prompt or of the continuation"),
        (echo(["The tower is in", " Rome", "."], [None, None, -1]), "no log-probability for the first token"),
    ],
)
def test_a_server_without_log_probabilities_is_detected(serve, ask, answer, words):
    (error,) = ask(serve(answer)).score([Score(prompt="The tower is in", continuations=(" Rome",))])
    assert isinstance(error, NoLikelihood)
    assert words in str(error)


def test_an_answer_without_log_probabilities_counts_as_usage(serve, ask):
    model = ask(serve({"choices": [{"text": "."}], "usage": {"prompt_tokens": 500, "completion_tokens": 1}}))
    model.score([Score(prompt="The tower is in", continuations=(" Rome",))])
    assert (model.usage.requests, model.usage.prompt_tokens, model.usage.tokens) == (1, 500, 1)


def test_chat_models_have_no_log_probabilities(serve, ask):
    server = serve({})
    (error,) = ask(server, chat=True).score([ASK])
    assert isinstance(error, NoLikelihood)
    assert not server.asked
