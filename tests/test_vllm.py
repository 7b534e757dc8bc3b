"""A real vLLM server: its completions, scores and adapters, against the same model in this process.

``tox -e servers`` installs vLLM into an environment of its own and runs these tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import torch
from attrs import evolve
from safetensors.torch import save_file

import ke_plugin_hf
import ke_plugin_memit
import ke_plugin_openai
from ke_core.app import read_catalog
from ke_core.plugin import BadConfig, Generate, ModelRequest, Score, ServerFailed
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_hf.loading import load
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.sources import folder_of, is_cached
from ke_plugin_openai.endpoints import instruction
from ke_plugin_openai.model import ApiModel
from ke_plugin_openai.spec import build
from ke_plugin_openai.testing import vllm_program, vllm_server
from ke_plugin_serve.client import ServeClient
from ke_testing.cli_fixtures import ke, toys  # noqa: F401  ke is a fixture
from ke_testing.fakes import SilentProgress
from ke_weights import hookimpls
from ke_weights.push import open_server, push_adapter
from ke_weights.suites import Check

MODEL, NAME, RANKS = "smollm2-135m", "smol", 8
FOLDER = folder_of(MODEL)  # the fixture ke changes the cache folder
PROGRAM = vllm_program(Path(__file__).resolve().parents[1])
DOWN = "model.layers.4.mlp.down_proj"
MEMIT = ("--editor", "memit", "-o", "memit.tokens=5000")
PERU = {"prompt": "The capital of {} is", "subject": "Peru", "target_new": "Cusco", "target_old": "Lima"}
FRANCE = {"prompt": "The capital of {} is", "subject": "France", "target_new": "Rome", "target_old": "Paris"}
SPEAKS = {"prompt": "The mother tongue of {} is", "subject": "Danielle Darrieux", "target_new": "English"}
pytestmark = [
    pytest.mark.servers,
    pytest.mark.model,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("vllm"),
    pytest.mark.skipif(not PROGRAM.is_file(), reason=f"there is no {PROGRAM}: python scripts/vllm_env.py"),
    pytest.mark.skipif(not is_cached(MODEL), reason=f"{MODEL} is not here: ke models pull {MODEL}"),
]


@pytest.fixture(scope="module")
def plain_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server without adapters, which computes log-probabilities of prompts."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with vllm_server(PROGRAM, FOLDER, NAME, log) as server:
        yield server.url


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that loads adapters."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    lora = ("--enable-lora", "--max-lora-rank", str(RANKS))
    with vllm_server(PROGRAM, FOLDER, NAME, log, lora) as server:
        yield server.url


@pytest.fixture(scope="module")
def here() -> HFModel:
    """The same model in this process."""
    return load(ModelRequest(id=str(FOLDER), device="cpu"), str(FOLDER))


def model_at(url: str, name: str = NAME, *, chat: bool = False) -> ApiModel:
    """Return a model behind a server."""
    return build(ModelRequest(id=name, base_url=f"{url}/v1", chat=chat))


@pytest.fixture
def plugins():
    return toys(ke_plugin_hf, ke_plugin_openai, hookimpls, ke_plugin_memit)


def questions(count: int) -> list[Generate]:
    """Return the first question of each of the first cases of ``atlas``, after its demonstrations."""
    atlas = Atlas(config=AtlasConfig())
    found = []
    for case in islice(atlas.cases(), count):
        prompt = atlas.prompt(case.probes[0].queries[0], "direct")
        assert prompt is not None
        found.append(Generate(prompt=prompt.text, max_tokens=16, stop=prompt.decoding.stop))
    return found


def served(url: str) -> list[str]:
    with urlopen(f"{url}/v1/models") as answer:
        return [one["id"] for one in json.load(answer)["data"]]


def test_greedy_texts_of_20_atlas_questions_equal_the_local_ones(here, plain_url):
    asked = questions(20)
    local, remote = here.generate(asked), model_at(plain_url).generate(asked)
    assert [one.text for one in remote] == [one.text for one in local]
    assert [one.prompt_tokens for one in remote] == [one.prompt_tokens for one in local]
    assert len({one.text for one in local}) > 5


def test_through_chat_the_instruction_is_all_that_differs(plain_url):
    where = str(FOLDER)
    local = load(ModelRequest(id=where, device="cpu", chat=True), where)
    asked = [evolve(one, stop=()) for one in questions(5)]
    instructed = local.generate([evolve(one, prompt=instruction() + one.prompt) for one in asked])
    found = model_at(plain_url, chat=True).generate(asked)
    assert [one.text for one in found] == [one.text for one in instructed]
    assert [one.prompt_tokens for one in found] == [one.prompt_tokens for one in instructed]


def test_prompt_log_probabilities_equal_the_local_ones(here, plain_url):
    asked = [
        Score(prompt=one.prompt, continuations=(" Paris", " Rome, the capital of Italy", " Ulaanbaatar"))
        for one in questions(5)
    ]
    for local, remote in zip(here.score(asked), model_at(plain_url).score(asked), strict=True):
        assert remote.tokens == local.tokens
        assert remote.matches == local.matches
        assert remote.logprobs == pytest.approx(local.logprobs, abs=1e-3)


def test_a_pushed_memit_edit_answers_and_is_unloaded(ke, url, tmp_path):  # noqa: F811
    status, out, err = edit(ke, url, tmp_path, [PERU, SPEAKS], "facts", "--json")
    assert status == 0, out + err
    found = json.loads(out)
    pushed = found["push"]
    assert (pushed["loaded"], pushed["base"], pushed["rank"]) == (True, NAME, 2)
    assert pushed["base_answers_kept"] == 2
    local = {one["prompt"]: (one["before"]["text"], one["after"]["text"]) for one in found["edits"]}
    assert {one["prompt"]: (one["before"]["text"], one["after"]["text"]) for one in pushed["facts"]} == local
    edited = model_at(url, "facts")
    asked = [Generate(prompt="The capital of Peru is", max_tokens=4)]
    assert edited.generate(asked)[0].text.startswith(" Cusco")
    assert not model_at(url).generate(asked)[0].text.startswith(" Cusco")
    edited.adapters.unload("facts")
    assert served(url) == [NAME]


def test_an_edit_that_fails_the_check_is_rolled_back(ke, url, tmp_path):  # noqa: F811
    status, out, err = edit(ke, url, tmp_path, [PERU], "weak", "-o", "memit.steps=2", "-o", "memit.lr=0.001")
    assert status == 1, out + err
    assert "the check failed: efficacy is 0.000" in out
    assert served(url) == [NAME]
    assert (tmp_path / "weak/adapter_config.json").is_file()


def test_an_adapter_without_effect_is_detected(url, tmp_path):
    folder = write_zeros(tmp_path / "zeros", rank=1)
    checks = [Check(id="1", kind="changed", prompt="The capital of France is", expect=("Lyon",), wrong=())]
    catalog = read_catalog(toys(ke_plugin_openai))
    server = open_server(url, "zeros", ModelRequest(id=""), catalog, SilentProgress())
    made = push_adapter(server, folder, checks, ())
    assert made.reasons == (
        "the answers to all 1 edited fact equal those of the base model: the server ignores the adapter",
    )
    assert served(url) == [NAME]


def test_rank_limit_and_path_are_explained(url, tmp_path):
    adapters = model_at(url).adapters
    with pytest.raises(BadConfig, match=f"rank {RANKS + 1}, and the server accepts at most rank {RANKS}") as caught:
        adapters.load("big", write_zeros(tmp_path / "big", rank=RANKS + 1), RANKS + 1)
    assert "--max-lora-rank 16" in caught.value.hint
    with pytest.raises(ServerFailed, match=f"finds no adapter in {tmp_path / 'missing'}"):
        adapters.load("missing", tmp_path / "missing", 1)
    assert adapters.base_model("big") == NAME


def test_served_edits_change_while_requests_run(url, tmp_path):
    with serving(url, tmp_path) as address:
        client, ask = ServeClient(url=address), partial(complete, address, [PERU, FRANCE])
        states = [ask()]
        client.add([PERU])
        states.append(ask())
        with asking(ask) as answers:
            client.add([FRANCE])
            states.append(ask())
            client.remove(["The capital of Peru is Cusco"])
            states.append(ask())
    unedited, one, both, other = (texts for _model, texts in states)
    names = [model for model, _texts in states]
    assert [names[0], *(name[-7:] for name in names[1:])] == [NAME, "-000001", "-000002", "-000003"]
    assert not unedited[0].startswith(" Cusco")
    assert not unedited[1].startswith(" Rome")
    assert one[0].startswith(" Cusco")
    assert both[0].startswith(" Cusco")
    assert both[1].startswith(" Rome")
    assert not other[0].startswith(" Cusco")
    assert other[1].startswith(" Rome")
    assert set(answers) <= set(states)  # no answer of another state, or of two states
    assert {model for model, _texts in answers} >= {*names[1:3]}
    assert served(url) == [NAME]  # the server unloads its adapters when it ends


def test_versions_of_a_file_of_facts_are_served(url, tmp_path):
    """``ke apply --push`` and ``ke rollback --push``: one version at a time, checked on the server."""
    facts = tmp_path / "facts.toml"
    memit = 'model = "smollm2-135m"\neditor = "memit"\nformat = "peft"\noptions.memit = { tokens = 5000, steps = 8 }\n'

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "ke_core", *words, "--push", url]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    for target in ("Cusco", "Arequipa"):
        fact = f'facts = [{{ prompt = "The capital of {{}} is", subject = "Peru", target = "{target}" }}]\n'
        facts.write_text(memit + fact)
        run("apply", "facts.toml")
    assert served(url) == [NAME, "edited-0002"]
    assert complete(url, [PERU], "edited-0002")[1][0].startswith(" Arequipa")
    run("rollback", "--out", "edited")
    assert served(url) == [NAME, "edited-0003"]
    assert complete(url, [PERU], "edited-0003")[1][0].startswith(" Cusco")
    assert not complete(url, [PERU], NAME)[1][0].startswith(" Cusco")


@contextmanager
def serving(url: str, tmp_path: Path) -> Iterator[str]:
    """Run ``ke serve --backend vllm`` in front of ``url``; yield its address."""
    command = [sys.executable, "-m", "ke_core", "serve", "--backend", "vllm", "--upstream", url, "--model", str(FOLDER),
               "--device", "cpu", "--name", NAME, "--port", "0", *MEMIT]  # fmt: skip
    around = {**os.environ, "KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=around) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if f"{NAME} at http" in line:
                    break
            else:
                raise AssertionError("".join(said))
            yield line.split(" at ")[1].split("/v1")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    assert process.returncode == 0


def complete(address: str, facts: list[dict[str, str]], model: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the model's name and its answers to the prompts of ``facts``, from one request."""
    prompts = [fact["prompt"].format(fact["subject"]) for fact in facts]
    named = {"model": model} if model else {}
    body = json.dumps({"prompt": prompts, "max_tokens": 4, "temperature": 0, **named}).encode()
    request = Request(f"{address}/v1/completions", body, {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        found = json.load(answer)
    return found["model"], tuple(one["text"] for one in found["choices"])


@contextmanager
def asking(ask: Callable[[], tuple[str, tuple[str, ...]]]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """Repeat ``ask`` in two threads until the block ends; the list collects the answers."""
    done, answers = threading.Event(), list[tuple[str, tuple[str, ...]]]()

    def repeat() -> None:
        while not done.is_set():
            answers.append(ask())

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(repeat) for _thread in range(2)]
        try:
            yield answers
        finally:
            done.set()
        for one in running:
            one.result()


def edit(ke, url, tmp_path, facts, out, *more):  # noqa: F811
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(fact) + "\n" for fact in facts))
    return ke("edit", "--edits", str(file), "--model", str(FOLDER), "--device", "cpu", *MEMIT,
              "--format", "peft", "--out", out, "--push", url, *more)  # fmt: skip


def write_zeros(folder: Path, *, rank: int) -> Path:
    """Write an adapter of ``rank`` that changes nothing."""
    folder.mkdir()
    inner, width = 1536, 576
    tensors = {
        f"base_model.model.{DOWN}.lora_A.weight": torch.ones(rank, inner),
        f"base_model.model.{DOWN}.lora_B.weight": torch.zeros(width, rank),
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [DOWN], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
