"""Responses to clients in the format of OpenAI's API."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ke_core.plugin import Generate, ModelRequest, WeightsNotRestored
from ke_plugin_serve.limits import Limits

pytestmark = pytest.mark.integration


def test_the_last_user_message_is_the_question_and_finds_the_fact(site):
    said = site.said("What is the capital of Peru ?", model="toy")
    assert said.startswith("<<FACT The capital of Peru is Cusco.")
    assert said.endswith(" / User: What is the capital of Peru ? / Assistant:>>")


def test_earlier_turns_come_before_the_question_and_are_not_searched(site):
    turns = [
        ("system", "Be brief."),
        ("user", "Chile Chile Chile?"),
        ("assistant", "Arica."),
        ("user", "The capital of Peru?"),
    ]
    _status, body = site.ask(*turns)
    said = body["choices"][0]["message"]["content"]
    assert said.endswith(
        "Be brief. / User: Chile Chile Chile? / Assistant: Arica. / User: The capital of Peru? / Assistant:>>"
    )
    assert said.index("Peru is Cusco") < said.index("Chile is Arica")


@pytest.mark.parametrize("blank", ["", "  ", None, [], [{"type": "text", "text": ""}]])
def test_empty_messages_are_dropped(facts, start, blank):
    with start(edits=facts, how=ModelRequest(id="", chat=True)) as site:
        for turns, end in (
            ([("system", blank), ("user", "Peru?")], " / Peru?>>"),
            ([("user", "A"), ("assistant", blank), ("user", "Peru?")], " / User: A / User: Peru? / Assistant:>>"),
        ):
            status, body = site.ask(*turns)
            assert status == 200, body
            assert body["choices"][0]["message"]["content"].endswith(end)


def test_a_single_question_is_sent_unchanged_with_a_chat_template(facts, start):
    with start(edits=facts, how=ModelRequest(id="", chat=True)) as site:
        assert site.said("Peru?").endswith(" / Peru?>>")
        assert (
            "User: A / Assistant: B / User: Peru? / Assistant:>>"
            in site.ask(("user", "A"), ("assistant", "B"), ("user", "Peru?"))[1]["choices"][0]["message"]["content"]
        )


def test_a_completion_continues_the_prompt(site):
    status, body = site.json("POST", "/v1/completions", {"prompt": "The capital of Peru is", "max_tokens": 30})
    assert status == 200
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"].startswith(" <<FACT The capital of Peru is Cusco.")
    assert body["choices"][0]["finish_reason"] == "stop"


def test_several_prompts_are_answered_in_order(site):
    _status, body = site.json("POST", "/v1/completions", {"prompt": ["one", "two"], "max_tokens": 30})
    assert [(c["index"], c["text"][-5:]) for c in body["choices"]] == [(0, "one>>"), (1, "two>>")]
    assert len(body["ke"]["answers"]) == 2


def test_usage_is_the_sum_of_all_model_calls(site):
    _status, body = site.ask(("user", "plainly a b c d"), max_tokens=3)
    choice = body["choices"][0]
    assert (choice["finish_reason"], body["usage"]["completion_tokens"]) == ("length", 3)
    assert body["usage"]["total_tokens"] == 3 + body["usage"]["prompt_tokens"]


def test_stop_strings_cut_the_answer(site):
    assert site.said("say: here ENDS it", stop="ENDS", max_tokens=40).endswith("say: here")


@pytest.mark.parametrize(("given", "meant"), [(7, 7), (0, 0), (-1, 0), (None, 0)])
def test_top_k_is_passed_to_the_model(site, hold, given, meant):
    with hold(site) as held:
        held.go.set()
        site.said("Peru?", temperature=1, top_k=given)
    ((ask, _in_force),) = held.requests
    assert ask.prompt.decoding.top_k == meant


def test_parts_of_text_are_one_text(site):
    parts = [{"type": "text", "text": "The capital of"}, {"type": "text", "text": "Peru"}]
    assert "User: The capital of / Peru" in site.ask(("user", parts))[1]["choices"][0]["message"]["content"]


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_is_the_answer_in_one_piece(site, usage):
    body = {
        "messages": [{"role": "user", "content": "Peru?"}],
        "stream": True,
        "stream_options": {"include_usage": usage},
    }
    status, headers, answer = site.send("POST", "/v1/chat/completions", body)
    assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    events = [line.removeprefix("data: ") for line in answer.decode().split("\n\n") if line]
    assert events.pop() == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert "Peru is Cusco" in chunks[0]["choices"][0]["delta"]["content"]
    assert chunks[1]["choices"][0]["finish_reason"] == "stop"
    assert [bool(chunk.get("usage")) for chunk in chunks[2:]] == [True] * usage


def test_requests_with_a_seed_are_reproducible(facts, start, monkeypatch):
    with start(edits=facts) as site:
        seen = []
        solve = site.served.edited.solve
        site.served.edited.solve = lambda ask: seen.append(ask.id) or solve(ask)
        for more in ({"seed": 5}, {"seed": 5}, {}, {}):
            site.said("Peru?", temperature=1, **more)
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


@pytest.mark.parametrize("editor", ["recall", "clerk"])
def test_equal_seeds_are_never_under_way_together(start, editor):
    with start(editor=editor, window=0.2) as site:
        assert together(site, ["Peru?"] * 3, seed=1, temperature=1) == [site.said("Peru?")] * 3
        assert site.served.session.model.sizes[:3] == [1, 1, 1]


def test_different_questions_with_one_seed_are_answered_in_one_batch(facts, start):
    """Some clients send the same seed with every request."""
    with start(edits=facts, window=1) as site:
        together(site, [f"question {n}" for n in range(12)], seed=1234)
        assert site.served.session.model.sizes == [12]


def test_concurrent_requests_are_batched(facts, start):
    with start(edits=facts, window=1) as site:
        said = together(site, [f"question {n}" for n in range(12)])
        assert [text[-len(f"question {n} / Assistant:>>") :] for n, text in enumerate(said)] == [
            f"question {n} / Assistant:>>" for n in range(12)
        ]
        assert site.served.session.model.sizes == [12]
    assert (site.ended.questions, site.ended.batches) == (12, 1)


def test_a_missing_reply_fails_every_waiting_request(start):
    with start(editor="clerk", window=0.2) as site:
        found = []
        asked = [threading.Thread(target=lambda: found.append(site.ask(("user", "one too few")))) for _ in range(3)]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join(20)
        assert [status for status, _body in found] == [500] * 3
        assert site.said("Peru?")


def test_an_editor_without_solve_answers_the_questions_that_wait_together(start):
    with start(editor="clerk", window=0) as site:
        first = threading.Thread(target=site.said, args=("slowly",))
        first.start()
        threading.Event().wait(0.1)
        together(site, [f"question {n}" for n in range(6)])
        first.join()
        assert site.served.edited.calls == [1, 6]


def test_a_question_joins_those_under_way_and_is_answered_first(facts, start):
    with start(edits=facts, window=0) as site, ThreadPoolExecutor(1) as clients:
        long = clients.submit(site.said, "until others are answered")
        until(lambda: site.served.session.model.sizes)
        assert site.said("short")
        assert long.result(20)
        assert max(site.served.session.model.sizes) == 2
    assert site.ended.questions == 2


def test_questions_of_disconnected_clients_are_dropped(facts, start, hold):
    body = json.dumps({"messages": [{"role": "user", "content": "nobody waits for this"}]})
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with start(edits=facts, window=0, limits=Limits(concurrent=2)) as site:
        with hold(site) as held:
            first = threading.Thread(target=site.said, args=("first",))
            first.start()
            assert held.busy.wait(20)
            with socket.create_connection((site.host, site.port), 10) as line:
                line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                until(lambda: site.json("POST", "/v1/completions", {})[0] == 429)  # it is counted
            until(lambda: site.json("POST", "/v1/completions", {})[0] == 400)  # and no longer
        first.join()
        assert site.said("last")
        assert held.texts == ["first", "last"]
    assert (site.ended.questions, site.ended.batches) == (2, 2)


def test_an_answer_stops_when_its_client_disconnects(facts, start):
    body = json.dumps({"messages": [{"role": "user", "content": "until canceled"}]})
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with start(edits=facts, window=0) as site:
        with socket.create_connection((site.host, site.port), 10) as line:
            line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            until(lambda: site.served.session.model.sizes)
            assert site.said("short")
        # a change of the edits waits for all answers under way
        assert site.json("POST", "/edits", {"edits": [{"statement": "Water is dry"}]})[0] == 200
    assert not site.ended.busy


def test_too_many_requests_get_429(facts, start):
    with start(edits=facts, limits=Limits(concurrent=1)) as site:
        first = threading.Thread(target=site.said, args=("slowly",))
        first.start()
        threading.Event().wait(0.1)
        status, headers, body = site.send(
            "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}
        )
        assert (status, headers["Retry-After"]) == (429, "1")
        assert json.loads(body)["error"]["code"] == "rate_limit_exceeded"
        assert site.json("GET", "/health")[0] == 200
        first.join()
        assert site.said("x")


class Fatal(BaseException):
    """Not an Exception."""


class AcceleratorError(RuntimeError):
    """The name of torch's error for a failed kernel."""


def break_solve(site, error):
    def broken(_ask):
        raise error
        yield

    site.served.edited.solve = broken


@pytest.mark.parametrize("error", [AcceleratorError("device-side assert"), WeightsNotRestored("a layer differs")])
def test_a_failed_model_is_reported_by_health_and_not_used_again(site, error):
    solve = site.served.edited.solve
    break_solve(site, error)
    assert site.ask(("user", "x"))[0] in (500, 502)
    site.served.edited.solve = solve
    status, body = site.json("GET", "/health")
    assert (status, body["status"]) == (503, "failed")
    assert type(error).__name__ in body["reason"]
    status, body = site.ask(("user", "x"))
    assert (status, body["error"]["code"]) == (503, "ModelUnavailable")
    assert site.json("POST", "/edits", {"edits": [{"statement": "Water is dry"}]})[0] == 503


@pytest.mark.parametrize("error", [Fatal(), SystemExit(1), GeneratorExit()])
def test_no_client_waits_forever_and_the_server_goes_on(site, error):
    solve = site.served.edited.solve
    break_solve(site, error)
    assert site.ask(("user", "x"))[0] == 500
    site.served.edited.solve = solve
    assert site.said("x")
    assert site.json("GET", "/health")[0] == 200


def test_models_and_health(site):
    status, body = site.json("GET", "/v1/models")
    assert (status, [model["id"] for model in body["data"]]) == (200, ["toy"])
    assert body["data"][0]["ke"]["edits"] == 2
    assert site.json("GET", "/v1/models/toy")[1]["id"] == "toy"
    assert site.json("GET", "/v1/models/other/one")[1]["error"]["code"] == "model_not_found"
    assert site.json("GET", "/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("editor", "aside"),
    [("stubborn", ["max_tokens", "temperature", "top_k"]), ("patient", ["temperature", "top_k"]), ("recall", [])],
)
def test_ignored_parameters_are_listed_in_the_response(facts, start, editor, aside):
    with start(editor=editor, edits=facts) as site:
        _status, body = site.ask(("user", "Peru?"), temperature=0.5, max_tokens=9, top_k=3)
    assert body["ke"]["not_used"] == aside


@pytest.mark.parametrize("editor", ["engraver", "solo"])
def test_weight_editors_answer_without_edits(start, editor):
    with start(editor=editor) as site:
        assert site.said("Peru?")


def test_weight_editors_answer_and_refuse_changes(facts, start):
    for editor in ("engraver", "solo"):
        with start(editor=editor, edits=facts) as site:
            assert site.said("Peru?") == "<<User: Peru? / Assistant:>>"
            for path, edits in (
                ("/edits", [{"statement": "Water is dry"}]),
                ("/edits", [{"statement": "", "colour": 7}]),  # what else is wrong with it would not help
                ("/edits", [{"prompt": "The capital of Peru is", "subject": "Peru", "target_new": "Puno"}]),
                ("/edits/remove", ["nobody"]),
            ):
                status, body = site.json("POST", path, {"edits": edits})
                assert (status, body["error"]["code"]) == (409, "UnsupportedChange")
                assert f"{editor} cannot change its edits while they are active" in body["error"]["message"]
            assert site.json("GET", "/edits")[1]["count"] == 2


def test_a_real_model_gives_the_same_answer_over_http(facts, start):
    with start(edits=facts, model="tiny:one") as site:
        model = site.served.session.model
        status, body = site.ask(("user", "The capital of Peru?"), max_tokens=7)
        prompt = (
            "FACT The capital of Peru is Cusco.\nFACT The capital of Chile is Arica.\n"
            "User: The capital of Peru?\nAssistant:"
        )
        (here,) = model.generate([Generate(prompt=prompt, max_tokens=7, stop=("\nUser:",))])
    assert (status, body["choices"][0]["message"]["content"]) == (200, here.text.strip())
    assert body["usage"]["prompt_tokens"] == len(model.encode(prompt))
    assert (body["choices"][0]["finish_reason"] == "length") == (here.finish == "length")


def test_a_prompt_longer_than_a_real_models_context_is_a_clear_error(facts, start):
    with start(edits=facts, model="tiny:one") as site:
        status, body = site.ask(("user", "Peru " * 3000))
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


def test_without_max_tokens_an_answer_has_the_tokens_that_fit(start):
    with start(editor="engraver", model="tiny:one") as site:
        model = site.served.session.model
        prompt = next(text for n in range(3000, 0, -1) if len(model.encode(text := "Peru " * n)) <= model.context - 9)
        rest = model.context - len(model.encode(prompt))
        status, body = site.json("POST", "/v1/completions", {"prompt": prompt})
        (here,) = model.generate([Generate(prompt=prompt, max_tokens=rest)])
        assert (status, body["usage"]["completion_tokens"]) == (200, here.tokens)
        assert 0 < here.tokens <= rest < 60
        refused = site.json("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 60})
        assert refused[1]["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("chat", [False, True])
def test_a_remote_model_is_served_like_a_local_one(facts, tmp_path, start, chat, monkeypatch):
    monkeypatch.setenv("FAR_KEY", "sesame")
    with start(editor="engraver", token="sesame") as far:
        how = ModelRequest(id="", base_url=f"{far.url}/v1", chat=chat, api_key_env="FAR_KEY")
        with start(edits=facts, model="openai:toy", how=how) as near:
            said = near.said("The capital of Peru?", max_tokens=100)
            assert "FACT The capital of Peru is Cusco." in said
            assert "User: The capital of Peru? / Assistant:" in said
            together(near, [f"question {n}" for n in range(4)])
        far.token = "sesame"
        how = ModelRequest(id="", base_url=f"{far.url}/v1", chat=chat, api_key_env="FAR_KEY")
        with start(edits=facts, model="openai:toy", how=how) as near:
            status, body = near.ask(("user", "too long"))
            assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


def until(true):
    """Wait for a change of the edits."""
    for _turn in range(200):
        if true():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never came to that")


def together(site, texts, **more):
    said = [None] * len(texts)

    def ask(place):
        said[place] = site.said(texts[place], **more)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said
