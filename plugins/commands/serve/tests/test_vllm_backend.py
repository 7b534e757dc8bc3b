"""``--backend vllm``: edits as adapters of another server, which answers all requests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install ke-weights")
pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")

from ke_core.plugin import BadConfig, EditFailed, ModelUnavailable, ServerFailed
from ke_plugin_serve.forwarding import Upstream, send
from ke_plugin_serve.wire import BadRequest

PERU, CHILE, CUBA = "The capital of Peru is", "The capital of Chile is", "The capital of Cuba is"
NOTHING = " nothing"


def fact(prompt, target):
    return {"prompt": prompt, "subject": prompt.split()[-2], "target_new": target}


def add(site, *facts, replace=False):
    return site.json("POST", "/edits", {"edits": [fact(*one) for one in facts], "replace": replace})


def complete(site, *prompts):
    """Return the texts and the name of the model that made them."""
    status, body = site.json("POST", "/v1/completions", {"prompt": list(prompts), "max_tokens": 5})
    assert status == 200, body
    return [one["text"] for one in body["choices"]], body["model"]


def active(site):
    return [one["statement"] for one in site.json("GET", "/edits")[1]["data"]]


def wait_until(condition):
    for _turn in range(400):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.integration
def test_edits_are_added_and_removed_as_one_adapter(fake, start_vllm):
    with start_vllm(fake) as site:
        assert complete(site, PERU) == ([NOTHING], "smol")
        assert add(site, (PERU, "Cusco"))[0] == 200
        assert complete(site, PERU, CHILE) == ([" Cusco.", NOTHING], "ke-abc123-000001")
        assert add(site, (CHILE, "Arica"))[0] == 200
        assert complete(site, PERU, CHILE) == ([" Cusco.", " Arica."], "ke-abc123-000002")
        wait_until(lambda: list(fake.loaded) == ["ke-abc123-000002"])
        about = site.json("GET", "/v1/models/toy")[1]["ke"]
        assert (about["edits"], about["adapter"], about["editor"]) == (2, "ke-abc123-000002", "scribe")
        assert site.json("POST", "/edits/remove", {"edits": [f"{PERU} Cusco"]})[0] == 200
        assert complete(site, PERU, CHILE) == ([NOTHING, " Arica."], "ke-abc123-000003")
        assert site.json("POST", "/edits/remove", {"edits": [f"{CHILE} Arica"]})[0] == 200
        assert complete(site, PERU, CHILE) == ([NOTHING, NOTHING], "smol")
        wait_until(lambda: not fake.loaded)
        assert add(site, (PERU, "Cusco"))[0] == 200
    assert fake.loaded == {}  # also at the end
    assert site.lines == []


def test_requests_are_forwarded_unchanged_but_for_the_model(fake, start_vllm):
    body = {"prompt": PERU, "n": 2, "top_p": 0.5, "guided_choice": ["a"]}
    with start_vllm(fake) as site:
        assert site.json("POST", "/v1/completions", {**body, "model": "toy"})[0] == 200
        assert fake.bodies[-1] == {**body, "model": "smol"}
        assert fake.headers[-1]["Authorization"] == "Bearer a key"
        assert site.said(PERU) == NOTHING
        status, error = site.json("POST", "/v1/completions", {**body, "model": "ke-abc123-000001"})
        assert (status, error["error"]["code"]) == (404, "model_not_found")
        fake.completion = lambda _name, _body: (400, {"error": {"message": "n is too large"}})
        assert site.json("POST", "/v1/completions", body) == (400, {"error": {"message": "n is too large"}})


def test_a_server_that_is_gone_is_503():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    async def ask():
        async with Upstream(url=url, key="", timeout=5).client(1) as client:
            await send(client, "/v1/completions", {})

    with pytest.raises(BadRequest, match=f"cannot reach {url}") as caught:
        asyncio.run(ask())
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "server_busy", 20)


def streaming(site):
    """Return a connection on which a completion of PERU is streamed."""
    connection = HTTPConnection(site.host, site.port, timeout=20)
    body = json.dumps({"prompt": PERU, "stream": True})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    return connection


@pytest.mark.integration
def test_a_stream_ends_with_the_adapter_that_it_began_with(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco and Lima"))
        fake.hold.clear()
        connection = streaming(site)
        stream = connection.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream"
        first = stream.readline()
        assert json.loads(first.removeprefix(b"data: ")) == {
            "model": "ke-abc123-000001",
            "choices": [{"text": "Cusco"}],
        }
        assert add(site, (PERU, "Arequipa"), replace=True)[0] == 200  # while the stream waits
        assert complete(site, PERU) == ([" Arequipa."], "ke-abc123-000002")
        assert set(fake.loaded) == {"ke-abc123-000001", "ke-abc123-000002"}
        fake.hold.set()
        rest = stream.read()
        assert rest.count(b'"model": "ke-abc123-000001"') == 2
        assert rest.endswith(b"data: [DONE]\n\n")
        connection.close()
        wait_until(lambda: list(fake.loaded) == ["ke-abc123-000002"])
    assert fake.unloaded_too_soon == []


@pytest.mark.integration
def test_a_client_that_disconnects_releases_its_adapter(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco and Lima"))
        fake.hold.clear()
        connection = streaming(site)
        connection.getresponse().readline()
        add(site, (CHILE, "Arica"))
        connection.sock.close()
        connection.close()
        wait_until(lambda: list(fake.loaded) == ["ke-abc123-000002"])
        fake.hold.set()


@pytest.mark.integration
def test_every_answer_is_that_of_one_complete_state(fake, start_vllm):
    states = [("Cusco", "Arica"), ("Ica", "Temuco"), ("Puno", "Osorno"), ("Piura", "Talca")]
    allowed = {(NOTHING, NOTHING), *((f" {one}.", f" {other}.") for one, other in states)}
    done, seen = threading.Event(), set()

    def ask(site):
        while not done.is_set():
            seen.add(tuple(complete(site, PERU, CHILE)[0]))

    with start_vllm(fake) as site, ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(ask, site) for _client in range(4)]
        try:
            for one, other in states:
                assert add(site, (PERU, one), (CHILE, other), replace=True)[0] == 200
        finally:
            done.set()
        for client in asking:
            client.result(20)
    assert seen <= allowed
    assert len(seen) > 2
    assert fake.unloaded_too_soon == []


@pytest.mark.integration
def test_a_fact_that_the_server_does_not_answer_is_refused(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco"))
        fake.says = {PERU: " Cusco."}
        status, body = add(site, (CHILE, "Arica"))
        assert status == 422
        assert body["error"]["code"] == "EditFailed"
        assert "efficacy is 0.500, and must be at least 1" in body["error"]["message"]
        assert f"'{CHILE}' is answered with 'nothing', not with 'Arica'" in body["error"]["message"]
        assert list(fake.loaded) == ["ke-abc123-000001"]
        assert active(site) == [f"{PERU} Cusco"]
        assert complete(site, PERU) == ([" Cusco."], "ke-abc123-000001")
    with start_vllm(fake, efficacy=0.5) as site:
        assert add(site, (PERU, "Cusco"), (CHILE, "Arica"))[0] == 200


def test_the_rank_is_compared_with_the_limit_before_loading(fake, start_vllm):
    fake.largest_rank = 1
    with start_vllm(fake) as site:
        assert add(site, (PERU, "Cusco"))[0] == 200
        status, body = add(site, (CHILE, "Arica"))
        assert status == 422
        assert "rank 2, and the server accepts at most rank 1" in body["error"]["message"]
        assert "start vLLM with --max-lora-rank 8" in body["error"]["message"]
        assert ("load_lora_adapter", "ke-abc123-000002") not in fake.log
        assert complete(site, PERU)[1] == "ke-abc123-000001"


@pytest.mark.parametrize("kind", ["ignoring", "unaware"])
def test_a_data_parallel_rank_without_the_adapter_is_refused(fake, start_vllm, kind):
    fake.ranks = 2
    getattr(fake, kind).add(1)
    with start_vllm(fake) as site:
        status, body = add(site, (PERU, "Cusco"))
        assert (status, body["error"]["code"]) == (502, ServerFailed.__name__)
        assert "a data-parallel rank of the server ignores it" in body["error"]["message"]
        assert "--data-parallel-size 1" in body["error"]["message"]
        assert fake.loaded == {}
        assert active(site) == []
        assert {complete(site, PERU)[1] for _turn in range(4)} == {"smol"}
        getattr(fake, kind).clear()
        assert add(site, (PERU, "Cusco"))[0] == 200


def test_an_edit_that_the_editor_refuses_changes_nothing(fake, start_vllm):
    with start_vllm(fake) as site:
        status, body = add(site, ("The moon of Earth is", "Titan"))
        assert (status, fake.loaded) == (422, {})
        assert "the moon is out of reach" in body["error"]["message"]


@pytest.mark.parametrize(("editor", "reason"), [
    ("recall", "changes no weights"),
    ("grafter", "is an adaptor, which changes the outputs of layers"),
    ("mason", "computes updates of full rank"),
])  # fmt: skip
def test_editors_without_adapters_are_refused_before_anything_is_loaded(
    fake, start_vllm, toys, monkeypatch, editor, reason
):
    monkeypatch.setattr(toys, "build_tiny", lambda _request: pytest.fail("loaded the model"))
    with pytest.raises(BadConfig, match=f"editor {editor} {reason}, and a LoRA adapter holds only low-rank") as caught:
        start_vllm(fake, editor=editor).__enter__()
    assert caught.value.hint.startswith("editors with low-rank updates: ")
    assert "scribe" in caught.value.hint
    assert not {"mason", "grafter", "recall"} & set(caught.value.hint.replace(",", "").split())
    assert fake.bodies == []


def test_a_server_that_cannot_load_adapters_is_refused_before_the_model_is_loaded(fake, start_vllm, toys, monkeypatch):
    monkeypatch.setattr(toys, "build_tiny", lambda _request: pytest.fail("loaded the model"))
    fake.routes = False
    with pytest.raises(ModelUnavailable, match="cannot load adapters while it runs"):
        start_vllm(fake).__enter__()


@pytest.mark.integration
def test_saved_edits_are_loaded_at_the_next_start(fake, start_vllm, facts):
    with start_vllm(fake, edits=facts) as site:
        assert complete(site, PERU, CHILE)[0] == [" Cusco.", " Arica."]
        site.json("POST", "/edits/remove", {"edits": [f"{PERU} Cusco"]})
    fake.loaded["ke-aaaaaa-000041"] = "left by a killed server"
    with start_vllm(fake, edits=facts) as site:
        assert complete(site, PERU, CHILE) == ([NOTHING, " Arica."], "ke-abc123-000001")
        assert "the server also has ke-aaaaaa-000041" in site.served.notices[1]
    assert list(fake.loaded) == ["ke-aaaaaa-000041"]


@pytest.mark.integration
def test_first_edits_that_the_server_does_not_answer_end_the_start(fake, start_vllm, facts):
    fake.says = {}
    with pytest.raises(EditFailed, match=r"efficacy is 0\.000"):
        start_vllm(fake, edits=facts).__enter__()
    assert fake.loaded == {}


@pytest.mark.integration
def test_an_edit_that_cannot_be_saved_is_not_active(fake, start_vllm, facts, tmp_path):
    state = tmp_path / "state.jsonl"
    with start_vllm(fake, edits=facts, state=state) as site:
        state.write_text("another program's\n")
        status, body = add(site, (CUBA, "Matanzas"))
        assert (status, body["error"]["code"]) == (409, "ChangedMeanwhile")
        assert list(fake.loaded) == ["ke-abc123-000001"]
        assert complete(site, CUBA) == ([NOTHING], "ke-abc123-000001")


@pytest.mark.integration
def test_an_adapter_that_stays_is_reported(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco"))
        fake.keeps = True
        assert add(site, (CHILE, "Arica"))[0] == 200
        wait_until(lambda: site.lines)
        assert site.lines[0].startswith("the server keeps the adapter ke-abc123-000001: ")


@pytest.mark.integration
def test_edits_are_loaded_again_after_a_restart_of_the_server(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco"))
        fake.loaded.clear()
        status, body = site.json("POST", "/v1/completions", {"prompt": PERU})
        assert (status, body["error"]["code"]) == (503, "server_busy")
        wait_until(lambda: site.json("GET", "/v1/models/toy")[1]["ke"]["adapter"] == "ke-abc123-000002")
        assert complete(site, PERU) == ([" Cusco."], "ke-abc123-000002")
    assert fake.loaded == {}
    assert site.lines == []


@pytest.mark.integration
def test_a_restarted_server_that_refuses_the_adapter_is_reported(fake, start_vllm):
    with start_vllm(fake) as site:
        add(site, (PERU, "Cusco"))
        fake.loaded.clear()
        fake.refuses = "LoRA is not enabled"
        assert site.json("POST", "/v1/completions", {"prompt": PERU})[0] == 503
        wait_until(lambda: site.lines)
        assert "could not be loaded into the restarted server" in site.lines[0]


@pytest.mark.integration
def test_folders_of_a_killed_process_are_not_reused(fake, start_vllm, tmp_path):
    left = tmp_path / "ke-aaaaaa-000007"
    left.mkdir()
    (left / "adapter_config.json").write_text("{}")  # the restarted server does not have this adapter
    with start_vllm(fake, folder=tmp_path) as site:
        assert add(site, (PERU, "Cusco"))[0] == 200
        assert complete(site, PERU) == ([" Cusco."], "ke-abc123-000001")
    assert [path.name for path in tmp_path.glob("ke-*")] == ["ke-aaaaaa-000007"]


@pytest.mark.integration
def test_unloading_is_tried_again_at_the_end(fake, start_vllm, tmp_path, capsys):
    with start_vllm(fake, folder=tmp_path) as site:
        add(site, (PERU, "Cusco"))
        fake.keeps = True
        add(site, (CHILE, "Arica"))
        wait_until(lambda: site.lines)
        assert (tmp_path / "ke-abc123-000001/adapter_config.json").is_file()  # the server still has it
        fake.keeps = False
    assert fake.loaded == {}
    assert not [*tmp_path.glob("ke-*")]
    assert "could not be unloaded" not in capsys.readouterr().err


@pytest.mark.integration
@pytest.mark.parametrize("restarted", [False, True])
def test_adapters_that_stay_at_the_end_are_reported(fake, start_vllm, tmp_path, capsys, restarted):
    with start_vllm(fake, folder=tmp_path) as site:
        add(site, (PERU, "Cusco"))
        fake.keeps = True
        assert add(site, (CHILE, "Arica"))[0] == 200
        if restarted:
            fake.loaded.clear()
    line = "ke-abc123-000001, ke-abc123-000002 could not be unloaded and may still be served"
    assert (line in " ".join(capsys.readouterr().err.split())) is not restarted
    assert [*tmp_path.glob("ke-*")] == [] if restarted else len([*tmp_path.glob("ke-*")]) == 2
