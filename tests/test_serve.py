"""``ke serve`` with the installed memory editors: edits that are added while serving are used in answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install ke-plugin-serve")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install ke-plugin-serve")

from ke_core.plugin import ModelSpec, hookimpl
from ke_core.plugins.catalog import read_catalog
from ke_core.runner import session
from ke_core.runner.session import ModelChoice
from ke_plugin_serve.client import ServeClient
from ke_plugin_serve.limits import Limits
from ke_plugin_serve.rendering import ChatFormat, ignored_fields
from ke_plugin_serve.server import Address, serve
from ke_plugin_serve.startup import ServedModel, ServeRequest, opened
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import ScriptedModel, SilentProgress, WordEncoder

pytestmark = pytest.mark.integration

FACT = "The capital of Peru is Cusco"
QUESTION = "What is the capital of Peru?"


class Source:
    """A model source with one function as its model."""

    def __init__(self, say: Callable[[str], str]) -> None:
        self.say = say

    @hookimpl
    def ke_models(self) -> list[ModelSpec]:
        return [ModelSpec(name="fake", summary="fake", build=lambda _r: ScriptedModel(self.say))]


@contextmanager
def serving(
    editor: str,
    say: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    edits: Path | None = None,
    dimension: int = 256,
) -> Iterator[tuple[str, ServedModel]]:
    package = pytest.importorskip(f"ke_plugin_{editor.replace('-', '_')}", reason=f"{editor} is not installed")
    monkeypatch.setattr(session, "_encoder", lambda _name, **_device: WordEncoder(dimension))
    request = ServeRequest(editor=editor, model=ModelChoice(reference="fake:one"), edits=edits)
    ready, found = threading.Event(), {}

    def listening(url: str, server: object) -> None:
        found.update(url=url, server=server)
        ready.set()

    with opened(request, read_catalog(plugins_of(package, Source(say))), SilentProgress()) as served:
        ignored = ignored_fields(served.spec)
        settings = ChatFormat(model="fake", turns=served.turns, ignored=ignored, max_tokens=500, default_tokens=200)
        arguments = (served, settings, Address(port=0), Limits())
        thread = threading.Thread(target=lambda: serve(*arguments, window=0.005, listening=listening), daemon=True)
        thread.start()
        assert ready.wait(20)
        try:
            yield found["url"], served
        finally:
            found["server"].should_exit = True
            thread.join(20)


def ask(url: str, question: str) -> dict:
    body = json.dumps({"messages": [{"role": "user", "content": question}]}).encode()
    request = Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=20) as answer:
        return json.loads(answer.read())


def mello_says(prompt: str) -> str:
    """Write one sub-question, then the end of the retrieved fact."""
    asked = prompt.rpartition("Question: ")[2]
    if "Retrieved fact:" not in asked:
        return f"\nSubquestion: {QUESTION}\nGenerated answer: Lima.\nRetrieved fact:"
    return f"\nFinal answer: {asked.rstrip('.').split()[-1]}"


def last_fact(prompt: str) -> str:
    """Return the last word of the fact in the prompt, or the model's own answer."""
    return f" {'Cusco' if FACT in prompt else 'Lima'}\nQuestion: and more"


@pytest.mark.parametrize(("editor", "say"), [("mello", mello_says), ("ice", last_fact), ("input-aug", last_fact)])
def test_a_memory_editor_answers_with_the_active_edits(
    editor: str, say: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, ke_cache_dir: Path
) -> None:
    with serving(editor, say, monkeypatch) as (url, served):
        client = ServeClient(url=url)
        assert "Cusco" not in ask(url, QUESTION)["choices"][0]["message"]["content"]
        added = client.add([{"statement": FACT}, *({"statement": f"Thing {n} is blue"} for n in range(50))])
        answer = ask(url, QUESTION)
        assert "Cusco" in answer["choices"][0]["message"]["content"]
        (how,) = answer["ke"]["answers"]
        assert how["outcome"] == "answered"
        retrieved = [name for step in how["steps"] for name in step["retrieved"]]
        assert retrieved[0] == added["added"][0]["id"]
        assert len(retrieved) < 10  # of 51: no editor adds all edits to every prompt
        client.remove([FACT])
        assert "Cusco" not in ask(url, QUESTION)["choices"][0]["message"]["content"]
        assert served.edited.details["facts"] == 50


def named(number: int, *parts: str) -> str:
    """Return ``number`` in three words of a small vocabulary that an encoder of hashed words distinguishes."""
    return " ".join(f"{part}{digit}" for part, digit in zip(parts, f"{number:03}", strict=True))


def desk(number: int) -> str:
    return named(number, "house", "floor", "desk")


def holder(number: int) -> str:
    return named(number, "Ann", "Bea", "Cox")


def test_the_openai_client_gets_answers_with_a_thousand_active_edits(
    monkeypatch: pytest.MonkeyPatch, ke_cache_dir: Path, tmp_path: Path
) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install openai")
    edits = tmp_path / "edits.jsonl"
    facts = ({"prompt": "The holder of {} is", "subject": desk(n), "target_new": holder(n)} for n in range(1000))
    edits.write_text("".join(json.dumps(fact) + "\n" for fact in facts))
    prompts: list[str] = []

    def says(prompt: str) -> str:
        """Return the object of the first fact, the nearest one."""
        prompts.append(prompt)
        return " " + prompt.partition(" is ")[2].partition(".")[0]

    with serving("ice", says, monkeypatch, edits=edits, dimension=4096) as (url, served):
        assert (len(served.bank), served.edited.details["shown"]) == (1000, "retrieved")
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            for number in (0, 499, 999):
                question = {"role": "user", "content": f"Who is the holder of {desk(number)} ?"}
                done = client.chat.completions.create(model="fake", messages=[question])
                assert done.choices[0].message.content == holder(number)
        assert [prompt.count("The holder of") for prompt in prompts] == [4] * 3


def test_ike_reports_ignored_temperature_and_used_length(monkeypatch: pytest.MonkeyPatch, ke_cache_dir: Path) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install openai")
    with serving("ike", lambda _prompt: " a b c d e f g h i", monkeypatch) as (url, _served):
        ServeClient(url=url).add([{"statement": FACT}])
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            question = {"role": "user", "content": QUESTION}
            done = client.chat.completions.create(model="fake", messages=[question], max_tokens=4, temperature=0.5)
    assert done.choices[0].message.content == "a b c"
    assert done.model_extra["ke"]["not_used"] == ["temperature"]
