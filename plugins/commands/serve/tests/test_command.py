"""The command line, shutdown, and the official OpenAI client."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time

import pytest

from ke_plugin_serve import server, vllm_cli
from ke_plugin_serve import startup as adaptor
from ke_plugin_serve.client import ServeClient
from ke_testing.http_server import QuietHandler, serving

pytestmark = pytest.mark.integration


@pytest.fixture
def plugins(toys):
    return toys.plugins()


def test_edits_from_the_command_line(site, ke, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    url = ("--url", site.url)
    status, out, _err = ke("serve", "edits", "list", *url)
    assert (status, out.count("The capital of")) == (0, 2)
    status, out, _err = ke("serve", "edits", "add", "Water is dry.", "Snow is warm", *url)
    assert (status, out.splitlines()[-1]) == (0, "4 active")
    assert "FACT Water is dry." in site.said("Is water dry")
    word = out.split()[1]
    status, out, _err = ke("serve", "edits", "remove", word, "Snow is warm", *url)
    assert (status, out.splitlines()[0].split()[1], out.splitlines()[-1]) == (0, word, "2 active")
    listed = json.loads(ke("serve", "edits", "list", "--json", *url)[1])
    assert listed[0]["date"] == "2026-01-02"

    file = tmp_path / "more.csv"
    file.write_text("prompt,subject,target_new,date\nThe capital of Peru is,Peru,Puno,2025-05-05\n")
    status, _out, err = ke("serve", "edits", "add", "--edits", str(file), *url)
    assert (status, "contradicts" in err) == (2, True)
    assert ke("serve", "edits", "add", "--edits", str(file), "--replace", *url)[0] == 0
    listed = json.loads(ke("serve", "edits", "list", "--json", *url)[1])
    assert (listed[-1]["statement"], listed[-1]["date"]) == ("The capital of Peru is Puno", "2025-05-05")
    assert listed[-1]["source"].endswith("more.csv, line 2")
    ke("serve", "edits", "add", "The capital of Bolivia is Oruro", "--subject", "Bolivia", *url)
    sucre = "The capital of Bolivia is => Sucre"
    assert ke("serve", "edits", "add", sucre, "--subject", "Bolivia", *url)[0] == 2


@pytest.mark.parametrize(("editor", "can"), [("engraver", False), ("recall", True)])
def test_the_start_message_tells_whether_edits_can_change(facts, monkeypatch, ke, editor, can):
    def listened(_served, _settings, _address, _limits, *, window, listening):
        listening("http://127.0.0.1:1", None)
        return server.ShutdownReport(questions=0, batches=0, busy=False)

    monkeypatch.setattr(server, "serve", listened)
    words = ("--editor", editor, "--model", "saying:one", "--edits", str(facts), "--port", "0")
    err = ke("serve", *words)[2]
    assert ("they cannot be changed while the server runs" in err, "changes are saved to" in err) == (not can, can)


def test_the_start_message_of_the_vllm_backend(fake, facts, monkeypatch, ke):
    monkeypatch.setattr(
        vllm_cli, "run", lambda _app, _address, _limits, listening: listening("http://127.0.0.1:1", None)
    )
    words = ("--editor", "scribe", "--model", "tiny:one", "--edits", str(facts), "--port", "0")
    status, _out, err = ke("serve", *words, "--backend", "vllm", "--upstream", f"{fake.url}/v1/")
    assert status == 0
    assert f"serving {fake.url} with scribe, 2 edits; changes are saved to {facts}.state.jsonl" in err
    assert "tiny:one at http://127.0.0.1:1/v1, without a token" in err
    assert "stopped; forwarded 0 requests" in err
    assert [name[-7:] for path, name in fake.log if path == "load_lora_adapter"] == ["-000001"]
    assert fake.loaded == {}


def test_command_line_errors_are_one_line(site, ke, monkeypatch):
    url = ("--url", site.url)
    served, vllm = ("--model", "saying:one", "--port", "0"), ("--backend", "vllm")
    recall = ("--editor", "recall", *served)
    upstream = ("--upstream", "http://127.0.0.1:9")
    for words, says in (
        (("edits", "remove", "nobody", *url), "no active edit is called 'nobody'"),
        (("edits", "list", "--url", "http://127.0.0.1:9"), "cannot reach http://127.0.0.1:9"),
        (("edits", "list", "--url", "nonsense"), "nonsense is not a server address"),
        (("edits", "list", "--url", "http://[::1"), "http://[::1 is not a server address"),
        (("edits", "list", "--url", "file:///etc/hostname"), "is not a server address"),
        (("edits", "add", *url), "add sentences or --edits FILE, not both"),
        (("edits", "add", "x", "y", "--subject", "z", *url), "--subject needs exactly one sentence"),
        (("edits", "add", "The moon is made of cheese", *url), "out of reach"),
        (("--port", "9", "edits", "list", *url), "--port is an option of ke serve"),
        ((), "no editor is given"),
        ((*recall, *vllm), "--backend vllm needs --upstream URL"),
        ((*recall, *upstream), "--upstream needs --backend vllm"),
        ((*recall, *vllm, *upstream, "--window", "1"), "--window needs --backend local"),
        ((*recall, *vllm, *upstream), "editor recall changes no weights"),
        (("--editor", "scribe", *served, *vllm, *upstream), "cannot reach http://127.0.0.1:9"),
        ((*recall, "--host", "0.0.0.0"), "other machines"),
        (("--editor", "recall", "--model", "nowhere:one", "--port", str(site.port)), "cannot listen on"),
        (("--editor", "cheat", *served), "gold material 'answers'"),
        (("--editor", "mute", *served), "nothing to serve"),
        ((*recall, "-o", "recall.j=1"), "no option"),
    ):
        status, _out, err = ke("serve", *words)
        assert (status, says in err) == (2, True), (words, err)
        assert "Traceback" not in err


def test_a_token_is_sent_by_the_command_line(start, facts, ke, monkeypatch):
    with start(edits=facts, token="sesame") as site:
        monkeypatch.delenv("KE_SERVE_TOKEN", raising=False)
        status, _out, err = ke("serve", "edits", "list", "--url", site.url)
        assert (status, "a valid bearer token is needed" in err, "KE_SERVE_TOKEN" in err) == (2, True, True)
        monkeypatch.setenv("KE_SERVE_TOKEN", "sesame")
        assert ke("serve", "edits", "list", "--url", site.url)[0] == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_token_is_not_sent_to_other_hosts(ke, monkeypatch, status):
    asked = []

    class Elsewhere(QuietHandler):
        def do_GET(self):  # noqa: N802  the name in http.server
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/stolen")
            self.end_headers()

        def do_POST(self):  # noqa: N802  the name in http.server
            self.do_GET()

    monkeypatch.setenv("KE_SERVE_TOKEN", "sesame")
    with serving(Elsewhere) as address:
        for words in (("list",), ("add", "Water is dry")):
            code, _out, err = ke("serve", "edits", *words, "--url", address)
            assert (code, f": {status}" in err, "redirects are not followed" in err) == (2, True, True)
    assert asked == ["/edits?offset=0", "/edits"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_after_running_answers(process, facts, number):
    child, site = process("--edits", facts, token="sesame")
    said = []
    asking = threading.Thread(target=lambda: said.append(site.said("slowly")))
    asking.start()
    time.sleep(0.15)
    child.send_signal(number)
    asking.join()
    _out, err = child.communicate(timeout=20)
    assert child.returncode == 0
    assert said[0].endswith("User: slowly / Assistant:>>")
    assert "stopped; answered 1 question in 1 batch" in err
    assert "Traceback" not in err
    assert "sesame" not in err
    assert "slowly" not in err


def test_a_slow_answer_at_shutdown_gets_503(process, facts):
    child, site = process("--edits", facts, grace=0.2)
    got = []
    asking = threading.Thread(target=lambda: got.append(site.ask(("user", "forever"))))
    asking.start()
    assert child.stderr.readline() == "thinking\n"
    child.send_signal(signal.SIGTERM)
    asking.join()
    _out, err = child.communicate(timeout=60)  # though the model's thread never comes back
    ((status, body),) = got
    assert (status, body["error"]["code"], child.returncode) == (503, "server_ending", 0)
    assert "stopped; answered 0 questions" in err
    assert "Traceback" not in err


def test_two_openai_clients_work_concurrently(process, facts):
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install openai")
    _child, site = process("--edits", facts, "--name", "toy", "--window", "50", token="sesame")
    clients = [openai.OpenAI(base_url=f"{site.url}/v1", api_key="sesame", max_retries=0) for _client in range(2)]
    try:
        assert [model.id for model in clients[0].models.list()] == ["toy"]
        texts = [None, None]

        def ask(number):
            done = clients[number].chat.completions.create(
                model="toy", messages=[{"role": "user", "content": f"The capital of {('Peru', 'Chile')[number]}?"}]
            )
            texts[number] = done.choices[0].message.content

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts[0].startswith("<<FACT The capital of Peru is Cusco.")
        assert texts[1].startswith("<<FACT The capital of Chile is Arica.")

        ServeClient(url=site.url, token="sesame").add([{"statement": "Water is dry"}])
        parts = clients[1].chat.completions.create(
            model="toy", messages=[{"role": "user", "content": "Is water dry"}], stream=True
        )
        assert "Water is dry" in "".join(part.choices[0].delta.content or "" for part in parts)
        plain = clients[0].completions.create(model="toy", prompt="The capital of Peru is")
        assert "Cusco" in plain.choices[0].text
        for wrong, error in (
            ({"model": "other", "messages": [{"role": "user", "content": "x"}]}, openai.NotFoundError),
            ({"model": "toy", "messages": [{"role": "user", "content": "too long"}]}, openai.BadRequestError),
            ({"model": "toy", "messages": []}, openai.BadRequestError),
        ):
            with pytest.raises(error) as caught:
                clients[0].chat.completions.create(**wrong)
            assert caught.value.body["message"]
        stranger = openai.OpenAI(base_url=f"{site.url}/v1", api_key="guess", max_retries=0)
        with pytest.raises(openai.AuthenticationError), stranger:
            stranger.models.list()
    finally:
        for client in clients:
            client.close()


def test_help_does_not_import_the_server(ke):
    for name in ("starlette", "uvicorn"):
        sys.modules.pop(name, None)
    status, out, _err = ke("serve", "--help")
    assert (status, "edits" in out, "starlette" in sys.modules) == (0, True, False)


def test_a_missing_ke_weights_is_an_error_with_the_install_command(ke, monkeypatch):
    monkeypatch.setattr(adaptor, "find_spec", lambda _name: None)
    status, _out, err = ke("serve", "--adaptor", "edited")
    assert status == 2
    assert err.splitlines() == [
        "error: --adaptor needs ke-weights, which is not installed: edited",
        "hint:  pip install 'ke-plugin-serve[adaptors]'",
    ]
