"""Invalid requests get one error in OpenAI's format, and unauthorized ones are refused."""

from __future__ import annotations

import json
import socket

import pytest

from ke_core.plugin import BadConfig
from ke_plugin_serve import limits as guarding
from ke_plugin_serve.limits import Limits
from ke_plugin_serve.rendering import served_name
from ke_plugin_serve.server import Address

pytestmark = pytest.mark.integration

HI = [{"role": "user", "content": "hi"}]
CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"


def shaped(body):
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "\n" not in error["message"]
    return error


@pytest.mark.parametrize(
    ("body", "status", "param", "says"),
    [
        (b"", 400, None, "not JSON"),
        (b"{", 400, None, "not JSON"),
        (b"[1]", 400, None, "not a JSON object"),
        (b"\xff\xfe", 400, None, "UTF-8"),
        (b"[" * 100_000, 400, None, "nested"),
        (b'{"messages": "\\ud800"}', 400, None, "UTF-8"),
        (b'{"temperature": NaN}', 400, None, "NaN is not a JSON number"),
        (b'{"max_tokens": ' + b"9" * 5000 + b"}", 400, None, "not JSON"),
        ({}, 400, "messages", "is missing"),
        ({"messages": []}, 400, "messages", "is empty"),
        ({"messages": HI * 300}, 400, "messages", "at most 256"),
        ({"messages": ["hi"]}, 400, "messages[0]", "must be an object"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "is missing"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "messages[0].content", "is empty"),
        ({"messages": [*HI, {"role": "user", "content": None}]}, 400, "messages[1].content", "is missing"),
        ({"messages": [{"role": "system", "content": 5}, *HI]}, 400, "messages[0].content", "must be a text, not 5"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role", "must be one of"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, 400, "messages[0].role", "must be one of"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content", "not text"),
        ({"messages": [*HI, {"role": "assistant", "content": "yes"}]}, 400, "messages", "must end with the user's"),
        ({"messages": HI, "model": "gpt"}, 404, "model", "no model gpt here: toy is served"),
        ({"messages": HI, "model": 4}, 400, "model", "must be a text"),
        ({"messages": HI, "max_tokens": 0}, 400, "max_tokens", "from 1 to 100"),
        ({"messages": HI, "max_tokens": 101}, 400, "max_tokens", "from 1 to 100"),
        ({"messages": HI, "max_tokens": 10**40}, 400, "max_tokens", "more than 30 digits"),
        ({"messages": HI, "max_completion_tokens": "9"}, 400, "max_completion_tokens", "whole number"),
        ({"messages": HI, "max_tokens": True}, 400, "max_tokens", "whole number"),
        ({"messages": HI, "temperature": -1}, 400, "temperature", "from 0 to 2"),
        ({"messages": HI, "temperature": "hot"}, 400, "temperature", "must be a number"),
        ({"messages": HI, "seed": 1.5}, 400, "seed", "whole number"),
        ({"messages": HI, "stop": ["a", "b", "c", "d", "e"]}, 400, "stop", "at most 4"),
        ({"messages": HI, "stop": [""]}, 400, "stop", "1 to 200"),
        ({"messages": HI, "stream": "yes"}, 400, "stream", "true or false"),
        ({"messages": HI, "stream_options": 5}, 400, "stream_options", "must be an object"),
        ({"messages": HI, "n": 2}, 400, "n", "not supported"),
        ({"messages": HI, "n": True}, 400, "n", "not supported"),
        ({"messages": HI, "logprobs": True}, 400, "logprobs", "not supported"),
        ({"messages": HI, "top_p": 0.5}, 400, "top_p", "not supported"),
        ({"messages": HI, "tools": [{"type": "function"}]}, 400, "tools", "not supported"),
        ({"messages": HI, "min_p": 0.1}, 400, "min_p", "not supported"),
        ({"messages": HI, "repetition_penalty": 1.2}, 400, "repetition_penalty", "not supported"),
        ({"messages": HI, "min_tokens": 5}, 400, "min_tokens", "not supported"),
        ({"messages": HI, "ignore_eos": True}, 400, "ignore_eos", "not supported"),
        ({"messages": HI, "stop_token_ids": [2]}, 400, "stop_token_ids", "not supported"),
        ({"messages": HI, "guided_json": {"type": "object"}}, 400, "guided_json", "not supported"),
        ({"messages": HI, "structured_outputs": {"regex": "a"}}, 400, "structured_outputs", "not supported"),
        ({"messages": HI, "reasoning_effort": "low"}, 400, "reasoning_effort", "not supported"),
        ({"messages": HI, "top_k": 0.5}, 400, "top_k", "whole number"),
        ({"messages": HI, "top_k": -2}, 400, "top_k", "from -1 to"),
        ({"messages": HI, "response_format": {"type": "json_object"}}, 400, "response_format", "not supported"),
        ({"messages": [{"role": "user", "content": "too long"}]}, 400, None, "9,999 tokens"),
        ({"messages": [{"role": "user", "content": "server down"}]}, 502, None, "ServerFailed: upstream is down"),
    ],
)
def test_a_bad_request_is_one_clear_error(site, body, status, param, says):
    found, answer = site.json("POST", CHAT, body)
    error = shaped(answer)
    assert (found, error["param"]) == (status, param)
    assert says in error["message"]
    assert site.said("still here?")


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (None, "is missing"),
        ([1, 2], "token ids"),
        ([[1]], "token ids"),
        ("", "is empty"),
        ([], "is empty"),
        (["x"] * 65, "at most 64"),
        ({"a": 1}, "must be a text"),
    ],
)
def test_a_bad_prompt_is_one_clear_error(site, prompt, says):
    status, answer = site.json("POST", PLAIN, {"prompt": prompt})
    assert (status, shaped(answer)["param"]) == (400, "prompt")
    assert says in answer["error"]["message"]


def test_neutral_fields_of_clients_are_accepted(site):
    more = {
        "n": 1, "top_p": 1, "presence_penalty": 0, "logit_bias": None, "user": "u", "metadata": {"a": 1},
        "store": False, "response_format": {"type": "text"}, "service_tier": "auto", "never_heard_of": [1],
        "top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "min_tokens": 0, "ignore_eos": False, "stop_token_ids": [],
        "guided_json": None, "reasoning_effort": "none",
    }  # fmt: skip
    assert site.said("hi", **more)


def test_errors_precede_the_stream(site):
    status, answer = site.ask(("user", "too long"), stream=True)
    assert (status, shaped(answer)["code"]) == (400, "context_length_exceeded")


def test_an_internal_error_is_a_500_without_details(start):
    with start(editor="clerk") as site:
        status, answer = site.ask(("user", "bug"))
        error = shaped(answer)
        assert (status, error["type"], "secret" in error["message"]) == (500, "server_error", False)
        assert site.said("hi")


def test_unknown_addresses_and_methods(site):
    for method, path, status in (
        ("GET", "/", 404),
        ("GET", CHAT, 405),
        ("POST", "/v1/embeddings", 404),
        ("DELETE", "/edits", 405),
    ):
        found, answer = site.json(method, path, {} if method == "POST" else None)
        assert (found, shaped(answer)["type"]) == (status, "invalid_request_error")


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_is_not_read(facts, start, declared):
    with start(edits=facts, limits=Limits(body=1000, edits=2000)) as site:
        body = json.dumps({"messages": [{"role": "user", "content": "x" * 5000}]}).encode()
        headers = {"Content-Type": "application/json"}
        for path in (CHAT, "/edits", "/edits/remove"):
            sent = body if declared else iter([body[:1500], body[1500:]])
            status, answer = site.json("POST", path, body) if declared else chunked(site, path, sent, headers)
            assert (status, shaped(answer)["code"]) == (413, "body_too_large")
        assert site.said("hi")


def test_a_slow_body_times_out(site, monkeypatch):
    monkeypatch.setattr(guarding, "PATIENCE", 0.2)
    with socket.create_connection((site.host, site.port), 10) as line:
        line.sendall(
            f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert b"408" in line.recv(4096).split(b"\r\n")[0]
    assert site.said("hi")


def test_a_token_is_required_except_for_health(facts, start):
    with start(edits=facts, token="sésame") as site:
        right = "Bearer sésame".encode().decode("latin-1")
        for given in ("", "Bearer", "Bearer sesame", "Basic s", "Bearer " + "x" * 5000):
            for method, path in (
                ("POST", CHAT),
                ("GET", "/v1/models"),
                ("GET", "/edits"),
                ("POST", "/edits"),
                ("GET", "/x"),
            ):
                status, headers, answer = site.send(method, path, {} if method == "POST" else None, Authorization=given)
                assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
                assert shaped(json.loads(answer))["code"] == "invalid_api_key"
        assert site.json("GET", "/health", Authorization="")[0] == 200
        assert site.json("POST", CHAT, {"messages": HI}, Authorization=right)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.com", "[::1].evil.com:80", "localhost:80@evil.com", "localhost@evil.com", "localhost:evil.com",
        "localhost:80:80", "localhost.evil.com", "[localhost]", "[127.0.0.1]", "[::1%evil.com]", "[::1", "::1",
        "localhost/evil.com", "localhost evil.com", "127.0.0.1.evil.com", "2130706433", "",
    ],
)  # fmt: skip
def test_a_host_that_is_not_exactly_this_machine_is_refused(site, host):
    status, body = site.json("GET", "/edits", Host=host)
    assert (status, shaped(body)["code"]) == (403, "bad_host")


def test_a_web_page_cannot_reach_a_server_without_a_token(site):
    for headers, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
    ):
        found, answer = site.json("POST", "/edits", {"edits": [{"statement": "Water is dry"}]}, **headers)
        assert (found, bool(shaped(answer))) == (status, True)
    assert site.json("GET", "/edits")[1]["count"] == 2
    for host in ("[::1]:9", "127.0.0.2:9", "LOCALHOST"):
        assert site.json("POST", CHAT, {"messages": HI}, Host=host)[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_public_address_needs_a_token(host):
    with pytest.raises(BadConfig, match="other machines"):
        Address(host=host).check()
    Address(host=host, token="x").check()
    assert "x" not in repr(Address(host=host, token="secret x")).split("port")[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_none(host):
    Address(host=host).check()


def chunked(site, path, pieces, headers):
    """A request without Content-Length."""
    from http.client import HTTPConnection

    connection = HTTPConnection(site.host, site.port, timeout=20)
    connection.request("POST", path, pieces, headers, encode_chunked=True)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_model_is_served_under_its_name_or_that_of_its_folder(tmp_path):
    assert [served_name(name) for name in ("hf:small", "small", "openai:gpt")] == ["small", "small", "openai:gpt"]
    assert served_name(f"hf:{tmp_path}") == served_name(str(tmp_path)) == tmp_path.name
