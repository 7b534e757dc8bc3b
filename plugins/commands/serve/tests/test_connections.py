"""Slow, silent or numerous clients do not delay other clients."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, closing

import pytest

from ke_plugin_serve import connections
from ke_plugin_serve import limits as guarding
from ke_plugin_serve.limits import Limits

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-A: "
BOLIVIA = {"prompt": "The capital of {} is", "subject": "Bolivia", "target_new": "Oruro"}


def connected(site):
    return socket.create_connection((site.host, site.port), 10)


def head(path, length, *more):
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}")
    return "\r\n".join([*lines, *more, "", ""]).encode()


def seconds_until_closed(line, drip=b"x"):
    """Send a byte now and then until the server closes the connection."""
    begun = time.monotonic()
    line.settimeout(0.05)
    while time.monotonic() - begun < 10:
        try:
            line.sendall(drip)
            if line.recv(65536) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begun


@pytest.fixture
def hasty(monkeypatch):
    """Short timeouts of connections."""
    for name, seconds in (("head", 0.4), ("rest", 0.4), ("read", 0.4)):
        monkeypatch.setitem(connections.SECONDS, name, seconds)


@pytest.mark.parametrize("sent", [b"", b"GE", HALF])
def test_an_incomplete_head_times_out_even_if_bytes_keep_arriving(site, hasty, sent):
    with closing(connected(site)) as line:
        line.sendall(sent)
        assert 0.2 < seconds_until_closed(line) < 3
    assert site.said("still here?")


def test_an_incomplete_second_request_times_out(site, hasty):
    with closing(connected(site)) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.sendall(HALF)
        assert 0.2 < seconds_until_closed(line) < 3


def test_the_rest_of_a_refused_body_times_out(facts, start, hasty):
    with start(edits=facts, token="sesame") as site, closing(connected(site)) as line:
        line.sendall(head("/edits", 100_000))
        assert line.recv(4096).startswith(b"HTTP/1.1 401")
        assert 0.2 < seconds_until_closed(line) < 3


def test_an_unread_response_times_out(site, hasty):
    site.json("POST", "/edits", {"edits": [{"statement": f"{n} {'x' * 1900}"} for n in range(1000)]})
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(10)
        line.connect((site.host, site.port))
        line.sendall(b"GET /edits HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        time.sleep(1.5)
        got = 0
        try:
            while piece := line.recv(1 << 20):
                got += len(piece)
        except ConnectionError:
            pass
    assert 0 < got < 7_000_000  # of four times 2 MB
    assert site.said("still here?")


def test_a_slow_answer_does_not_time_out(site, hasty, hold):
    with hold(site) as held, closing(connected(site)) as line:
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
        line.sendall(head(CHAT, len(body)) + body)
        assert held.busy.wait(10)
        time.sleep(1)
        held.go.set()
        assert line.recv(4096).startswith(b"HTTP/1.1 200")


def test_silent_connections_are_closed_for_a_client_that_sends_a_request(facts, start, monkeypatch):
    monkeypatch.setattr(connections, "WAITING", 150)
    with start(edits=facts, limits=Limits(concurrent=1)) as site, ExitStack() as opened:
        lines = [opened.enter_context(closing(connected(site))) for _ in range(300)]
        for line in lines:
            line.sendall(HALF)
        begun = time.monotonic()
        assert site.json("GET", "/health")[0] == 200
        assert site.said("still here?")
        assert time.monotonic() - begun < 5
        closed = 0
        for line in lines:
            line.settimeout(0)
            try:
                closed += line.recv(1) == b""
            except BlockingIOError:
                pass
            except ConnectionError:
                closed += 1
        assert closed >= 300 - 151
    assert site.ended.questions == 1


def test_slow_bodies_do_not_delay_other_requests(site, monkeypatch):
    monkeypatch.setattr(guarding, "PATIENCE", 4.0)
    with ExitStack() as opened:
        for path in ("/edits", "/edits", "/edits", "/edits/remove"):
            line = opened.enter_context(closing(connected(site)))
            line.sendall(head(path, 100) + b"{")
        begun = time.monotonic()
        assert site.json("POST", "/edits", {"edits": [BOLIVIA]})[0] == 200
        assert time.monotonic() - begun < 2


def test_a_request_counts_only_after_its_body_has_arrived(facts, start):
    with start(edits=facts, limits=Limits(concurrent=1)) as site, ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(closing(connected(site))).sendall(head(CHAT, 100) + b"{")
        assert site.said("still here?")
