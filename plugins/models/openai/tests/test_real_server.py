"""Comparison with transformers' own server: one model, locally and over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import evolve

from ke_core.plugin import Generate, ModelRequest, NoLikelihood, Score
from ke_plugin_hf.loading import load
from ke_plugin_hf.sources import folder_of, is_cached
from ke_plugin_hf.testing import tiny_model
from ke_plugin_openai.endpoints import instruction
from ke_plugin_openai.spec import build

ABSENT = [name for name in ("fastapi", "uvicorn", "openai") if find_spec(name) is None]
pytestmark = [
    pytest.mark.xdist_group("server"),  # one worker, one server: two that look for a free port may find the same one
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(ABSENT), reason=f"transformers' server needs {', '.join(ABSENT)}: transformers[serving]"),
]
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
READY = 240  # seconds: half a minute on an idle machine, most of it imports
PROMPTS = [
    Generate(
        prompt=f"The capital of {name} is Rome.\nQuestion: What is the capital of {name}?", max_tokens=16, stop=stop
    )
    for name in ("France", "Italy", "Japan", "the country where the club was founded")
    for stop in ((), ("e",), ("\n", "t a"))
]


@contextmanager
def served(folder: Path, home: Path):
    """Return the base URL of a server for the model in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--host", "127.0.0.1"]
    hub = home / "hub"
    hub.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--device", "cpu", "--dtype", "float32"],
            stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, port, home / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process, port, log):
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.5)
    pytest.fail(f"the server was not ready within {READY} s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A model folder and the address of its server."""
    folder = tmp_path_factory.mktemp("served") / "tiny"
    model = tiny_model("llama")
    model.tokenizer.chat_template = TEMPLATE
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    with served(folder, tmp_path_factory.mktemp("home")) as url:
        yield folder, url


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    if not is_cached("smollm2-135m"):
        pytest.skip("smollm2-135m is not here: ke models pull smollm2-135m")
    with served(folder_of("smollm2-135m"), tmp_path_factory.mktemp("home")) as url:
        yield folder_of("smollm2-135m"), url


def told(written):
    """What both say of a text; that a text ended by itself or at a stop string is one and the same to this server.

    It may decode a token on after the stop string, so the count of generated tokens is left out.
    """
    return [(one.text, one.finish == "length", one.prompt_tokens) for one in written]


def both(where, *, chat=False):
    """The same model, loaded locally and over HTTP."""
    folder, url = where
    here = load(ModelRequest(id=str(folder), device="cpu", chat=chat), str(folder))
    return here, build(ModelRequest(id=str(folder), base_url=url, chat=chat, concurrency=3, timeout=300.0))


def test_plain_completions_equal_local_ones(tiny):
    here, there = both(tiny)
    local, remote = here.generate(PROMPTS), there.generate(PROMPTS)
    assert told(remote) == told(local)
    assert len({one.text for one in local}) > 4


def test_through_chat_the_instruction_is_all_that_differs(tiny):
    here, there = both(tiny, chat=True)
    asked = [evolve(one, prompt=f"{one.prompt}\nAnswer:", stop=()) for one in PROMPTS[::3]]
    remote = there.generate(asked)
    instructed = here.generate([evolve(one, prompt=instruction() + one.prompt) for one in asked])
    assert [one.text for one in remote] == [one.text for one in instructed]
    assert [one.prompt_tokens for one in remote] == [one.prompt_tokens for one in instructed]
    assert [one.text for one in here.generate(asked)] != [one.text for one in remote]  # no instruction: other words
    assert [one.text for one in both(tiny)[0].generate(asked)] != [one.text for one in remote]  # nor a template


def test_missing_log_probabilities_are_detected(tiny):
    _here, there = both(tiny)
    (error,) = there.score([Score(prompt="The capital of France is", continuations=(" Paris",))])
    assert isinstance(error, NoLikelihood)
    assert "ignores 'logprobs'" in str(error)


def test_an_unserved_model_is_a_failure(tiny):
    _folder, url = tiny
    (error,) = build(ModelRequest(id="no/such-model", base_url=url)).generate(PROMPTS[:1])
    assert "no/such-model" in str(error)
    assert "\n" not in str(error)


@pytest.mark.model
def test_smollm2_gives_the_same_greedy_texts_here_and_over_http(smollm2):
    here, there = both(smollm2)
    local, remote = here.generate(PROMPTS[:6]), there.generate(PROMPTS[:6])
    assert told(remote) == told(local)
