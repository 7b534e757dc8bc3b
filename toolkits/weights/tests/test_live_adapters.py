"""Adapters of a fake vLLM server. The editor is replaced: it writes the adapter's files without a model."""

import json
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")

import ke_plugin_openai
from ke_core.app import ModelChoice, read_catalog
from ke_core.plugin import KEError, ModelRequest, ModelUnavailable
from ke_testing.cli_fixtures import toys
from ke_testing.fake_vllm import running_fake_vllm
from ke_testing.fakes import SilentProgress
from ke_weights.live_adapters import LiveAdapters, LiveSettings
from ke_weights.push import open_server
from ke_weights.sentences import edit_from_sentence

PERU, CHILE = ("The capital of Peru is", "Cusco"), ("The capital of Chile is", "Arica")


@pytest.fixture
def fake():
    with running_fake_vllm() as found:
        yield found


@pytest.fixture
def live(fake, tmp_path, monkeypatch):
    catalog, progress = read_catalog(toys(ke_plugin_openai)), SilentProgress()
    settings = LiveSettings(
        url=fake.url, model=ModelChoice(reference="tiny:one", how=ModelRequest(id="")), folder=tmp_path
    )
    server = open_server(fake.url, "ke-000000", settings.model.how, catalog, progress)
    monkeypatch.setattr(LiveAdapters, "_write", write)
    return LiveAdapters(
        settings=settings, catalog=catalog, progress=progress, base=server.base_name, left=(),
        server=server.adapters, loaded=None, edited=SimpleNamespace(check=lambda _edits: None),
    )  # fmt: skip


def write(_live, edits, folder):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": len(edits)}))
    lines = [f"* {one.prompt} **{one.target}** (2026)" for one in edits]
    (folder / "README.md").write_text("\n".join(lines))


def edits(*facts):
    return [edit_from_sentence(f"{prompt} {target}", prompt.split()[-2], target) for prompt, target in facts]


def asked(fake, name):
    return [body["prompt"] for body in fake.bodies if body.get("model") == name]


def test_base_answers_are_asked_once_per_prompt(live, fake):
    live.load(edits(PERU))
    live.load(edits(PERU, CHILE))
    live.load(edits(CHILE))
    assert asked(fake, "smol") == [PERU[0], CHILE[0]]


def test_the_server_is_contacted_before_the_edits_are_computed(live, fake, monkeypatch):
    monkeypatch.setattr(LiveAdapters, "_write", lambda *_arguments: pytest.fail("computed the edits"))
    fake.routes = False
    with pytest.raises(ModelUnavailable, match="cannot load adapters while it runs"):
        live.load(edits(PERU))


@pytest.mark.parametrize("at", ["write", "load", "completion"])
def test_an_adapter_that_is_loaded_after_closing_is_unloaded(live, fake, tmp_path, monkeypatch, at):
    reached, closed, errors = threading.Event(), threading.Event(), []
    load, completion = fake.load, fake.completion

    def pause():
        reached.set()
        assert closed.wait(20)

    def slow_write(*arguments):
        pause()
        write(*arguments)

    def slow_load(name, body):
        reply, path = load(name, body), fake.loaded.pop(name)  # the server has read the folder
        pause()
        fake.loaded[name] = path
        return reply

    def slow_completion(name, body):
        if name != "smol":
            pause()
        return completion(name, body)

    if at == "write":
        monkeypatch.setattr(LiveAdapters, "_write", slow_write)
    else:
        monkeypatch.setattr(fake, at, {"load": slow_load, "completion": slow_completion}[at])

    def change():
        try:
            live.load(edits(PERU))
        except KEError as error:
            errors.append(error.message)

    thread = threading.Thread(target=change)
    thread.start()
    assert reached.wait(20)
    assert live.close() == []
    closed.set()
    thread.join(20)
    assert len(errors) == 1
    assert ("have been closed" in errors[0]) is (at != "completion")
    assert fake.loaded == {}
    assert [*tmp_path.iterdir()] == []


def test_an_adapter_can_be_unloaded_twice(live, fake):
    name = live.load(edits(PERU))
    live.unload(name)
    live.unload(name)
    assert (live.close(), fake.loaded) == ([], {})
