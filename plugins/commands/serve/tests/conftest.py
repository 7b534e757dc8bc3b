"""A real server on a loopback port, in a thread or a separate process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import pytest

from ke_core.app import ModelChoice, read_catalog
from ke_core.plugin import DEFAULT_LOADING, ModelRequest
from ke_testing.cli_fixtures import ke  # noqa: F401  a fixture
from ke_testing.fake_vllm import running_fake_vllm
from ke_testing.fakes import SilentProgress

if not (find_spec("starlette") and find_spec("uvicorn")):  # what ke-plugin-serve brings
    collect_ignore_glob = ["test_*.py"]

SCRIPT = Path(__file__).with_name("toys.py")
RUDE = Path(__file__).parents[3] / "models/openai/tests/conftest.py"
FACTS = (
    {"prompt": "The capital of Peru is", "subject": "Peru", "target_new": "Cusco", "date": "2026-01-02"},
    {"prompt": "The capital of Chile is", "subject": "Chile", "target_new": "Arica"},
)


def load(name, path):
    """Import a helper module: tests are not a package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOYS = load("serve_toys", SCRIPT)


class Site:
    """A running server and an HTTP client for it."""

    def __init__(self, url, served=None, token=""):
        self.url, self.served, self.token = url, served, token
        self.host, _, port = url.removeprefix("http://").partition(":")
        self.port = int(port)

    def send(self, method, path, body=None, **headers):
        """Status, headers and body; a body that is not bytes is sent as JSON."""
        connection = HTTPConnection(self.host, self.port, timeout=20)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, **headers):
        status, _headers, answer = self.send(method, path, body, **headers)
        return status, json.loads(answer)

    def ask(self, *messages, **more):
        """Return the response to a chat with alternating turns that ends with the user's."""
        turns = [{"role": role, "content": text} for role, text in messages]
        return self.json("POST", "/v1/chat/completions", {"messages": turns, **more})

    def said(self, text, **more):
        status, body = self.ask(("user", text), **more)
        assert status == 200, body
        return body["choices"][0]["message"]["content"]


@contextmanager
def serving(
    *,
    editor="recall",
    model="saying:one",
    how=DEFAULT_LOADING,
    edits=None,
    state=None,
    token="",
    limits=None,
    window=0.005,
):
    from ke_plugin_serve.limits import Limits
    from ke_plugin_serve.rendering import ChatFormat, ignored_fields
    from ke_plugin_serve.server import Address, serve
    from ke_plugin_serve.startup import ServeRequest, opened

    request = ServeRequest(
        editor=editor, model=ModelChoice(reference=model, how=how), edits=edits, state=state, options={}
    )
    limits = limits or Limits()
    with opened(request, read_catalog(TOYS.plugins()), SilentProgress()) as served:
        settings = ChatFormat(
            model="toy", turns=served.turns, ignored=ignored_fields(served.spec), max_tokens=100, default_tokens=60
        )

        address = Address(port=0, token=token)
        with in_thread(lambda listening: serve(served, settings, address, limits, window=window, listening=listening),
                       served, token) as site:  # fmt: skip
            yield site


@contextmanager
def in_thread(serve, served, token=""):
    """Run ``serve(listening)`` in a thread, until the block ends; its result is then ``site.ended``."""
    ready, started = threading.Event(), {}

    def listening(url, server):
        started.update(url=url, server=server)
        ready.set()

    def run():
        started["ended"] = serve(listening)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(20)
    site = Site(started["url"], served, token)
    try:
        yield site
    finally:
        started["server"].should_exit = True
        thread.join(20)
        site.ended = started.get("ended")
    assert not thread.is_alive()


@contextmanager
def serving_vllm(fake, *, editor="scribe", model="tiny:one", edits=None, state=None, efficacy=1.0, folder=None):
    """Run ``ke serve --backend vllm`` in front of ``fake``."""
    from ke_plugin_serve.forwarding import Upstream
    from ke_plugin_serve.limits import Limits
    from ke_plugin_serve.server import Address, run
    from ke_plugin_serve.startup import ServeRequest
    from ke_plugin_serve.vllm_app import VllmRoutes
    from ke_plugin_serve.vllm_startup import VllmRequest, opened_vllm

    request = ServeRequest(editor=editor, model=ModelChoice(reference=model), edits=edits, state=state)
    wanted = VllmRequest(serve=request, url=fake.url, folder=folder, efficacy=efficacy)
    with opened_vllm(wanted, read_catalog(TOYS.plugins()), SilentProgress()) as served:
        upstream, lines = Upstream(url=fake.url, key="a key", timeout=20), []
        routes = VllmRoutes(served, "toy", Limits(), upstream, lines.append)
        app = routes.app("")
        with in_thread(lambda listening: run(app, Address(port=0), routes.limits, listening), served) as site:
            site.lines = lines
            yield site
        routes.thread.close()


@pytest.fixture
def facts(tmp_path):
    """A file of two edits."""
    path = tmp_path / "facts.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in FACTS))
    return path


@pytest.fixture
def site(facts):
    """A server with two edits."""
    with serving(edits=facts) as found:
        yield found


@pytest.fixture
def start():
    """``with start(edits=...) as site``: a server with other settings."""
    return serving


@pytest.fixture
def process(tmp_path):
    """``process("--edits", ...)``: the command line, as (process, site); killed at the end of the test."""
    begun = []

    def begin(*arguments, token="", editor="recall", grace=30):
        words = (sys.executable, str(SCRIPT), "serve", "--model", "saying:one", "--editor", editor, "--port", "0")
        around = {**os.environ, "KE_SERVE_TOKEN": token, "KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200"}
        around["TOYS_GRACE"] = str(grace)
        child = subprocess.Popen((*words, *map(str, arguments)), env=around, stderr=subprocess.PIPE, text=True)
        begun.append(child)
        said = []
        for line in child.stderr:
            said.append(line)
            if " at http" in line:
                url = line.split(" at ")[1].split("/v1")[0]
                return child, Site(url, token=token)
        raise AssertionError("".join(said))

    yield begin
    for child in begun:
        child.kill()
        child.wait()
        child.stderr.close()


class Held:
    """The questions of an editor, which answers them after ``go`` is set."""

    def __init__(self, served):
        self.requests, self.busy, self.go = [], threading.Event(), threading.Event()
        self._solve, self._served = served.edited.solve, served
        served.edited.solve = self.solve

    def solve(self, ask):
        self.requests.append((ask, tuple(self._served.bank.edits)))
        self.busy.set()
        assert self.go.wait(20)
        return self._solve(ask)

    @property
    def texts(self):
        return [ask.texts[0] for ask, _in_force in self.requests]


@pytest.fixture
def hold():
    """``hold(site)``: the editor records questions and answers them at the end of the ``with`` block."""

    @contextmanager
    def holding(site):
        held = Held(site.served)
        try:
            yield held
        finally:
            held.go.set()

    return holding


@pytest.fixture
def behind():
    """``with behind(reply) as (server, how)``: a server with that reply to every POST, and the ModelRequest for it."""

    @contextmanager
    def running(reply):
        server = load("serve_rude", RUDE).Rude(lambda _number, _body: reply)
        try:
            yield server, ModelRequest(id="", base_url=server.url, timeout=5.0)
        finally:
            server.close()

    return running


@pytest.fixture
def toys():
    """The module of the toys."""
    return TOYS


@pytest.fixture
def fake():
    """A fake vLLM server."""
    with running_fake_vllm() as found:
        yield found


@pytest.fixture
def start_vllm(monkeypatch):
    """``with start_vllm(fake, edits=...) as site``: edits as adapters of vLLM, from ``ke-abc123-000001`` on."""
    monkeypatch.setattr("ke_weights.live_adapters.token_hex", lambda _bytes: "abc123")
    return serving_vllm
