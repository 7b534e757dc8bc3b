"""A configurable, possibly misbehaving server, and a model behind it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import ke_plugin_analysis.hookimpls
import ke_plugin_hf
import ke_plugin_openai
from ke_core.plugin import ModelRequest
from ke_plugin_openai.client import RetryPolicy
from ke_plugin_openai.model import ApiModel
from ke_testing.cli_fixtures import evaluated, ke, toys  # noqa: F401  fixtures

KEY = "sk-test-4f9a8b7c6d5e4f3a2b1c"


def completion(text=" Paris", *, finish="stop", **more):
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **more}], "usage": usage}


def message(text, *, finish="stop", **more):
    said = {"role": "assistant", "content": text, **more}
    return {"choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": {}}


class Rude:
    """``answer(n, body)`` says what the n-th POST gets, from 0: a JSON value, (status, value, headers), bytes as a
    whole body, or a function that is given the handler. ``listing`` does so for GET /models.
    """

    def __init__(self, answer, listing=(404, {}, {})):
        self.answer, self.listing = answer, listing
        self.asked, self.headers, self.times = [], [], []
        self.now = self.most = 0
        self._lock = threading.Lock()
        rude = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_GET(self):
                rude.headers.append(dict(self.headers))
                rude.send(self, rude.listing)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with rude._lock:
                    number = len(rude.asked)
                    rude.asked.append((self.path, body))
                    rude.headers.append(dict(self.headers))
                    rude.times.append(time.monotonic())
                    rude.now += 1
                    rude.most = max(rude.most, rude.now)
                try:
                    rude.send(self, rude.answer(number, body))
                finally:
                    with rude._lock:
                        rude.now -= 1

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request, client_address):
                pass  # a client that gave up is what some tests are about

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def send(self, handler, what):
        if callable(what):
            with suppress(OSError):
                what(handler)
            handler.close_connection = True
            return
        status, value, headers = what if isinstance(what, tuple) else (200, what, {})
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        handler.send_response(status)
        for name, text in {"Content-Length": str(len(raw)), **headers}.items():
            handler.send_header(name, text)
        handler.end_headers()
        handler.wfile.write(raw)

    @property
    def prompts(self):
        return [body["prompt"] for _path, body in self.asked]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve(monkeypatch):
    """``serve(answer)`` starts a server; all are stopped in the end."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running = []

    def start(answer, **more):
        running.append(Rude(answer if callable(answer) else lambda _n, _body: answer, **more))
        return running[-1]

    yield start
    for server in running:
        server.close()


@pytest.fixture
def ask():
    """``ask(server, **settings)``: a model behind the server, with short waits."""
    made = []

    def make(server, **settings):
        url = server if isinstance(server, str) else server.url
        model = ApiModel.open(ModelRequest(**{"id": "m", "base_url": url, "timeout": 5.0, **settings}), url)
        model.client.patience = RetryPolicy(attempts=3, first=0.01, most=0.02, total_wait=2.0)
        made.append(model)
        return model

    yield make
    for model in made:
        model.client.close()


@pytest.fixture
def say():
    """Builders of answers: ``say.completion(text)``, ``say.message(text)``."""
    return type("Say", (), {"completion": staticmethod(completion), "message": staticmethod(message), "KEY": KEY})


@pytest.fixture
def plugins():
    return toys(ke_plugin_analysis.hookimpls, ke_plugin_hf, ke_plugin_openai)
