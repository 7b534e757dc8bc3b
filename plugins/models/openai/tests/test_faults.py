"""Server errors become one-line failures that never show the key."""

import logging
import re
import socket
import sys
import threading
import time
from contextlib import ExitStack
from email.utils import formatdate

import pytest
from attrs import evolve

from ke_core.engine.running import failure
from ke_core.plugin import (
    ContentRefused,
    ContextOverflow,
    Generate,
    Generated,
    KEError,
    ModelRequest,
    ModelUnavailable,
    ServerDown,
    ServerFailed,
    ServerRefused,
)
from ke_plugin_openai import client
from ke_plugin_openai.client import ApiClient
from ke_plugin_openai.faults import CHARGED
from ke_plugin_openai.model import DOWN
from ke_plugin_openai.spec import build

pytestmark = pytest.mark.integration

ONE = [Generate(prompt="The capital of France is", max_tokens=4)]
MANY = [Generate(prompt=f"{n}", max_tokens=4) for n in range(60)]


def line(error):
    """Return the error as a failure in one line, with its kind."""
    assert isinstance(error, KEError)
    failed = failure(error)
    assert "\n" not in failed.message
    return f"{failed.error}: {failed.message}"


def drip(handler):
    handler.send_response(200)
    handler.end_headers()
    for _byte in range(200):
        handler.wfile.write(b" ")
        time.sleep(0.02)


def cut_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"te')


def torn_stream(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'10\r\n{"choices": [{"t\r\n')


def hang_up(handler):
    handler.connection.close()


def test_a_server_that_is_down_is_reported_at_once(serve, say):
    server = serve(say.completion())
    server.close()
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"cannot reach http://127\.0\.0\.1:") as caught:
        build(ModelRequest(id="m", base_url=server.url))
    assert time.monotonic() - started < 5
    assert "start the server" in caught.value.hint


def test_a_server_that_goes_down_fails_the_requests(serve, ask, say):
    server = serve(say.completion())
    model = ask(server, concurrency=4)
    assert isinstance(model.generate(ONE)[0], Generated)
    server.close()
    model.client._http.close()
    model = ask(server, concurrency=4)
    lines = {line(error) for error in model.generate(MANY)}
    assert len(lines) == 1
    assert re.match(r"ServerDown: cannot reach \S+: .* \(last of 3 tries\)", lines.pop())


def test_sending_stops_after_repeated_failures(serve, ask):
    server = serve((500, {"error": {"message": "out of memory"}}, {}))
    errors = ask(server, concurrency=2).generate(MANY)
    assert {line(error) for error in errors} == {
        "ServerDown: the server returned status 500: out of memory (last of 3 tries)"
    }
    assert len(server.asked) <= 3 * (DOWN + 2)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _handler: time.sleep(1), "no answer within 0.2 s"),
        (drip, "no complete answer within the time limit"),
        (cut_off, "was cut off"),
        (torn_stream, "was cut off"),
        (hang_up, "was cut off|cannot reach"),
        (b"<html>busy</html>", "is not JSON"),
        (b"", "is not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"choices": []}', "contains no choice"),
        (b'{"choices": [null]}', "contains no choice"),
        (b'{"choices": [{"finish_reason": "stop"}]}', "contains no text"),
        (b'{"id": "x"}', "contains no choice"),
        ({"error": {"message": "engine died"}}, "^ServerDown: the server returned an error: engine died"),
        ({"error": {"message": "overloaded", "code": "529"}}, "the server returned status 529: overloaded"),
        ((502, b"<html><h1>Bad Gateway</h1></html>", {}), "the server returned status 502: Bad Gateway"),
        ((500, b'{"error": ' + b"[" * 100_000, {}), "the server returned status 500: "),
        ((500, b"[" * 900 + b"]" * 900, {}), "the server returned status 500: "),
        ({"choices": [{"text": "half", "finish_reason": "abort"}]}, "aborted its answer: abort"),
        ({"choices": [{"text": "half", "finish_reason": "error"}]}, "aborted its answer: error"),
        (
            {"choices": [{"text": "half", "finish_reason": "stop", "error": {"code": 502, "message": "Gone"}}]},
            "aborted its answer: Gone",
        ),
    ],
)
def test_permanent_errors_are_one_line_failures(serve, ask, answer, words):
    server = serve(lambda _n, _body: answer)
    (error,) = ask(server, timeout=0.2).generate(ONE)
    assert isinstance(error, ServerDown)
    assert re.search(words, line(error))
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("first", "requests"),
    [
        (cut_off, 1),
        (hang_up, 1),
        (b"{", 1),
        (b'{"choices": []}', 2),  # an answer of no use is one, and paid for
        ({"choices": [{"text": "half", "finish_reason": "abort"}]}, 2),
        ((500, {}, {}), 1),
        ((429, {}, {}), 1),
        ((503, b"", {"Retry-After": "0"}), 1),
    ],
)
def test_transient_errors_are_retried(serve, ask, say, first, requests):
    server = serve(lambda n, _body: first if n == 0 else say.completion())
    model = ask(server)
    (written,) = model.generate(ONE)
    assert written.text == " Paris"
    assert (model.usage.requests, model.usage.retries) == (requests, 1)


USED = {"usage": {"prompt_tokens": 500, "completion_tokens": 20}}


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        ({"choices": [{"text": "half", "finish_reason": "content_filter"}]}, 1),
        ({"choices": [{"text": None, "finish_reason": "stop"}]}, CHARGED),
        ({"choices": []}, CHARGED),
        ({"choices": [{"text": "half", "finish_reason": "abort"}]}, CHARGED),
        ({"choices": [{"text": "half", "error": {"message": "Gone"}}]}, CHARGED),
    ],
)
def test_unusable_answers_are_counted_and_retried_rarely(serve, ask, answer, tries):
    server = serve(answer | USED)
    model = ask(server)
    model.client.patience = evolve(model.client.patience, attempts=20)
    (error,) = model.generate(ONE)
    assert isinstance(error, KEError)
    assert len(server.asked) == tries
    assert model.usage.counts() == {
        "requests": tries, "retries": tries - 1, "prompt_tokens": 500 * tries, "tokens": 20 * tries, "unmetered": 0,
    }  # fmt: skip


@pytest.mark.parametrize("answer", [cut_off, torn_stream, b"<html>", b"[1]", {"error": {"message": "engine died"}}])
def test_requests_that_may_be_charged_are_sent_three_times(serve, ask, answer):
    server = serve(lambda _n, _body: answer)
    model = ask(server)
    model.client.patience = evolve(model.client.patience, attempts=20)
    (error,) = model.generate(ONE)
    assert isinstance(error, ServerDown)
    assert len(server.asked) == CHARGED


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error": {"message": "no credit", "code": 402}}, ServerRefused),
        ({"error": {"message": "this model's maximum context length is 10 tokens", "code": 400}}, ContextOverflow),
        ({"error": "the prompt is too long"}, ContextOverflow),
        ({"error": "Unexpected endpoint or method. (POST /completions)"}, ServerRefused),
        ({"content": " Paris", "stop": True}, ServerRefused),
        ({"model": "m", "response": " Paris"}, ServerRefused),
    ],
)
def test_an_error_with_status_200_is_classified_by_code_or_message(serve, ask, answer, kind):
    server = serve(answer)
    (error,) = ask(server).generate(ONE)
    assert type(error) is kind
    assert len(server.asked) == 1


@pytest.mark.parametrize(("name", "value"), [("HTTPS_PROXY", "foo://bar"), ("SSL_CERT_FILE", "/nowhere/ca.pem")])
def test_a_proxy_or_certificates_that_cannot_be_used_are_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelUnavailable, match="the environment's proxy or certificates: ") as caught:
        ApiClient.open("https://api.example.com/v1", key_env="OPENAI_API_KEY", timeout=1, concurrency=1)
    assert name in str(caught.value.hint)


def test_an_endless_answer_times_out(serve, ask, monkeypatch):
    monkeypatch.setattr(client, "LARGEST", 1000)
    (error,) = ask(serve(b" " * 5000)).generate(ONE)
    assert "an answer larger than" in line(error)


@pytest.mark.parametrize("wait", [lambda: "0.4", lambda: formatdate(time.time() + 2, usegmt=True)])
def test_retry_after_delays_all_requests(serve, ask, say, wait):
    server = serve(lambda n, _body: (429, {}, {"Retry-After": wait()}) if n == 0 else say.completion())
    model = ask(server, concurrency=1)
    assert all(isinstance(one, Generated) for one in model.generate(MANY[:3]))
    assert server.times[1] - server.times[0] >= 0.35
    assert model.usage.retries == 1


class Gate:
    """Accepts a request every ``every`` seconds and sends Retry-After to the others."""

    def __init__(self, say, every):
        self.say, self.every = say, every
        self.next, self.lock = 0.0, threading.Lock()

    def __call__(self, _n, _body):
        with self.lock:
            left = self.next - time.monotonic()
            if left > 0:
                return 429, {"error": {"message": "slow down"}}, {"Retry-After": f"{left:.4f}"}
            self.next = time.monotonic() + self.every
        return self.say.completion()


def test_rate_limited_requests_are_all_answered(serve, ask, say):
    server = serve(Gate(say, 0.02))
    model = ask(server, concurrency=8)
    model.client.patience = evolve(model.client.patience, total_wait=60.0)
    assert all(isinstance(one, Generated) for one in model.generate(MANY))
    assert model.usage.requests == len(MANY)
    assert model.usage.retries == len(server.asked) - len(MANY)


def test_endless_rate_limiting_fails_in_the_end(serve, ask):
    server = serve((429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"}))
    model = ask(server, concurrency=2)
    model.client.patience = evolve(model.client.patience, total_wait=0.3)
    assert {failure(error).error for error in model.generate(MANY)} == {"ServerDown"}
    assert 2 * DOWN < len(server.asked) < 2 * len(MANY)  # each more than once, and not all of them


def test_status_429_does_not_count_as_down(serve, ask, say):
    """Without Retry-After, a request may fail at every attempt; the others are still sent."""
    server = serve(lambda _n, sent: (429, {}, {}) if int(sent["prompt"]) < 2 * DOWN else say.completion())
    outcomes = ask(server, concurrency=1).generate(MANY)
    assert [isinstance(one, Generated) for one in outcomes] == [n >= 2 * DOWN for n in range(len(MANY))]


def test_429_without_retry_after_backs_off_and_then_fails(serve, ask):
    server = serve((429, {"error": {"message": "slow down"}}, {}))
    (error,) = ask(server).generate(ONE)
    assert line(error) == "ServerDown: the server returned status 429: slow down (last of 3 tries)"
    assert server.times[2] - server.times[0] >= 0.015


@pytest.mark.parametrize("zone", ["+9999999999", "-99999999999999999999", "+2460", "x"])
def test_a_retry_after_with_an_invalid_time_zone_is_ignored(serve, ask, zone):
    server = serve((429, {}, {"Retry-After": f"Wed, 21 Oct 2026 07:28:00 {zone}"}))
    (error,) = ask(server).generate(ONE)
    assert isinstance(error, ServerDown)


def test_a_retry_after_of_hours_is_not_waited_for(serve, ask):
    server = serve((429, {}, {"Retry-After": "86400"}))
    started = time.monotonic()
    (error,) = ask(server).generate(ONE)
    assert isinstance(error, ServerDown)
    assert time.monotonic() - started < 2
    assert len(server.asked) == 1


@pytest.mark.parametrize(("status", "code"), [(429, "insufficient_quota"), (402, "payment_required")])
def test_an_account_without_credit_is_not_retried(serve, ask, status, code):
    server = serve((status, {"error": {"message": "You exceeded your quota", "code": code}}, {}))
    errors = ask(server, concurrency=1).generate(MANY)
    assert {line(error) for error in errors} == {
        f"ServerRefused: the account has no credit left ({status}): You exceeded your quota"
    }
    assert len(server.asked) == 1


def test_a_rejected_key_is_reported_first_and_never_shown(serve, say):
    refusal = {"error": {"message": f"Incorrect API key provided: {say.KEY}"}}
    server = serve(say.completion(), listing=(401, refusal, {}))
    with pytest.raises(
        ModelUnavailable, match=r"rejected the request \(401\); its key is the one in OPENAI_API_KEY"
    ) as e:
        build(ModelRequest(id="m", base_url=server.url))
    assert say.KEY not in f"{e.value} {e.value.hint} {e.value!r}"
    assert "[OPENAI_API_KEY]" in str(e.value)
    assert not server.asked


def test_a_missing_key_is_reported(serve, ask, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    server = serve((401, {"detail": "who are you?"}, {}))
    errors = ask(server, concurrency=1).generate(MANY)
    assert {line(error) for error in errors} == {
        "ServerRefused: the server rejected the request (401); no key was sent: OPENAI_API_KEY is not set: who are you?"
    }
    assert len(server.asked) == 1  # the others would have been refused too
    assert not any("Authorization" in headers for headers in server.headers)


def test_a_server_that_lists_no_models_may_still_serve(serve, say):
    for listing in ((404, {}, {}), (500, b"CacheNotFound", {}), (403, {}, {}), b"{", {"data": None}, hang_up):
        server = serve(say.completion(), listing=listing)
        assert build(ModelRequest(id="m", base_url=server.url)).generate(ONE)[0].text == " Paris"


def test_the_context_is_the_listed_one(serve, say):
    server = serve(say.completion(), listing={"data": [{"id": "other"}, {"id": "m", "max_model_len": 4096}]})
    assert build(ModelRequest(id="m", base_url=server.url)).context == 4096


def test_a_missing_model_is_reported_once(serve, ask):
    server = serve((404, {"error": {"message": "The model `m` does not exist"}}, {}))
    errors = ask(server, concurrency=1).generate(MANY)
    assert {line(error) for error in errors} == {
        "ServerRefused: the server does not know this model or endpoint (404): The model `m` does not exist"
    }
    assert "--chat" in errors[0].hint
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This model's maximum context length is 4097 tokens, however you requested 9000 tokens"),
        (400, "The decoder prompt (length 9000) is longer than the maximum model length of 2048."),
        (400, "the request exceeds the available context size, try increasing it"),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"),
        (422, "`inputs` must have less than 4095 tokens. Given: 5000"),
        (400, "The input token count (40000) exceeds the maximum number of tokens allowed (32768)."),
        (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
        (400, "Prompt length 9000 exceeds max_seq_len 4096"),
        (400, "Prompt too large"),
        (400, "Input length (9000 tokens) exceeds the maximum allowed length (4090 tokens)"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "The message you submitted was too long"),
        (413, "payload too large"),
    ],
)
def test_a_prompt_over_the_context_is_a_context_overflow_of_that_request_alone(serve, ask, say, status, words):
    server = serve(
        lambda _n, body: (status, {"error": {"message": words}}, {}) if len(body["prompt"]) > 9 else say.completion()
    )
    short, long, last = ask(server).generate([MANY[0], *ONE, MANY[1]])
    assert isinstance(long, ContextOverflow)
    assert words in line(long)
    assert short.text == last.text == " Paris"


@pytest.mark.parametrize(
    ("chat", "answer"),
    [
        (False, {"choices": [{"text": "", "finish_reason": "content_filter"}]}),
        (True, {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}),
        (True, {"choices": [{"message": {"content": None, "refusal": "I won't."}, "finish_reason": "stop"}]}),
        (True, (400, {"error": {"code": "content_filter", "message": "filtered by the content policy"}}, {})),
    ],
)
def test_a_content_refusal_is_its_own_failure(serve, ask, chat, answer):
    server = serve(lambda _n, _body: answer)
    (error,) = ask(server, chat=chat).generate(ONE)
    assert isinstance(error, ContentRefused)
    assert failure(error).particular  # however many in a row, they do not stop the run
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "words",
    ["stop: list too long", "Invalid 'stop': array too long", "`max_new_tokens` must be <= 512. Given: 600",
     "the request has a stop list that is too long"],
)  # fmt: skip
def test_other_length_errors_are_no_context_overflow(serve, ask, words):
    (error,) = ask(serve((400, {"error": {"message": words}}, {}))).generate(ONE)
    assert line(error) == f"ServerFailed: the server rejected the request (400): {words}"


def test_other_rejections_fail_only_their_request(serve, ask):
    server = serve((400, {"error": {"message": "Unsupported value: 'temperature'"}}, {}))
    errors = ask(server).generate(MANY[:3])
    assert {line(error) for error in errors} == {
        "ServerFailed: the server rejected the request (400): Unsupported value: 'temperature'"
    }
    assert len(server.asked) == 3


def test_a_redirect_is_not_followed_so_that_the_key_goes_nowhere_else(serve, ask, say):
    other = serve(say.completion())
    server = serve((307, {}, {"Location": f"{other.url}/completions"}))
    (error,) = ask(server).generate(ONE)
    assert isinstance(error, ServerRefused)
    assert not other.headers


def test_the_key_is_in_no_text_log_or_error(serve, ask, say, caplog):
    answers = [
        (400, {"error": {"message": f"bad header Bearer {say.KEY}"}}, {}),
        (500, f"<p>{say.KEY}</p>".encode(), {}),
        f"no JSON {say.KEY}".encode(),
        say.completion(f" {say.KEY}"),
    ]
    with caplog.at_level(logging.DEBUG):
        for answer in answers:
            server = serve(answer)
            model = ask(server)
            (outcome,) = model.generate(ONE)
            assert say.KEY not in f"{outcome!r} {outcome} {getattr(outcome, 'hint', '')}"
            assert server.headers[0]["Authorization"] == f"Bearer {say.KEY}"
            assert say.KEY not in f"{model!r} {model.client!r} {model.describe()} {model.digest}"
            if isinstance(outcome, Exception):
                assert outcome.__cause__ is None
                assert (
                    outcome.__suppress_context__
                    or outcome.__context__ is None
                    or say.KEY not in str(outcome.__context__)
                )
    assert say.KEY not in caplog.text


ESCAPED = "sk-proj/abc+def/1234567890"
SPELLED = [
    ESCAPED.replace("/", "\\/"),
    ESCAPED.replace("+", "\\u002B").replace("/", "\\u002f"),
    "".join(f"\\u{ord(one):04x}" for one in ESCAPED),
]


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize(
    "answer",
    [
        (401, '{"error": {"message": "Incorrect API key provided: KEY"}}', False),
        (400, '{"error": {"message": "{\\"error\\": \\"bad key KEY\\"}"}}', False),
        (400, 'no JSON "KEY', False),
        (200, '{"error": {"message": "bad key KEY"}}', False),
        (200, '{"choices": [{"text": "it is KEY.", "finish_reason": "stop"}]}', False),
        (200, '{"choices": [{"text": "", "error": {"message": "bad key KEY"}}]}', False),
        (200, '{"choices": [{"message": {"refusal": "not with KEY"}, "finish_reason": "stop"}]}', True),
    ],
)
def test_a_json_escaped_key_is_not_shown(serve, ask, monkeypatch, spelled, answer):
    status, body, chat = answer
    monkeypatch.setenv("OPENAI_API_KEY", ESCAPED)
    server = serve((status, body.replace("KEY", spelled).encode(), {}))
    (outcome,) = ask(server, chat=chat).generate(ONE)
    told = outcome.text if isinstance(outcome, Generated) else line(outcome)
    assert "[OPENAI_API_KEY]" in told
    assert not any(one in told for one in (ESCAPED, spelled))


def test_a_key_in_two_parts_of_a_message_is_not_kept(serve, ask, say):
    parts = [{"type": "text", "text": say.KEY[:9]}, {"type": "text", "text": say.KEY[9:]}]
    (written,) = ask(serve(say.message(parts)), chat=True).generate(ONE)
    assert written.text == " [OPENAI_API_KEY]"


@pytest.mark.parametrize("key", ["two words", "sk-\x01", "schlüssel-geheim"])
def test_an_invalid_key_is_refused_without_showing_it(serve, ask, monkeypatch, key):
    server = serve({})
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ModelUnavailable, match="the value of MY_KEY cannot be a key") as caught:
        ask(server, api_key_env="MY_KEY")
    assert key not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-proj-0123456789", "gsk_0123456789"])
def test_a_key_given_as_variable_name_is_not_shown(serve, ask, key):
    with pytest.raises(ModelUnavailable, match="--api-key-env does not name a set environment variable") as caught:
        ask(serve({}), api_key_env=key)
    assert key not in f"{caught.value} {caught.value.hint}"


def test_white_space_around_the_key_is_ignored(serve, ask, say, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{say.KEY}\r\n")
    server = serve(say.completion())
    assert ask(server).generate(ONE)[0].text == " Paris"
    assert server.headers[0]["Authorization"] == f"Bearer {say.KEY}"


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "ftp://x/v1", "http://", "http://me:secret-word@host/v1", "http://h/v1?key=secret-word", "x"],
)
def test_an_invalid_base_url_or_one_with_credentials_is_refused(url):
    with pytest.raises(ModelUnavailable, match="is not a base URL") as caught:
        build(ModelRequest(id="m", base_url=url))
    assert "secret-word" not in str(caught.value)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems answer where the queue is full")
def test_a_host_that_drops_packets_is_reported_within_the_connect_timeout(ask, monkeypatch):
    monkeypatch.setattr(client, "CONNECT", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, ExitStack() as stack:
        for _full in range(4):  # its queue: whoever comes now hears nothing
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(deaf.getsockname())
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(ModelUnavailable, match=rf"cannot reach {url} within 0\.3 s") as caught:
            build(ModelRequest(id="m", base_url=url))
        assert "start the server" in caught.value.hint
        (error,) = ask(url).generate(ONE)
        assert line(error) == f"ServerDown: cannot reach {url} within 0.3 s (last of 3 tries)"


def test_an_unknown_host_is_one_line():
    with pytest.raises(ModelUnavailable, match=r"cannot reach http://no-such-host\.invalid/v1"):
        build(ModelRequest(id="m", base_url="http://no-such-host.invalid/v1"))


def test_server_errors_are_kerrors():
    assert issubclass(ServerFailed, KEError)
