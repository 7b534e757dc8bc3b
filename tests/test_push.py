"""``ke edit --push``: an adapter is loaded into a server, checked there, and unloaded after a failure.

The server follows vLLM's routes. Its answers are given by the test: the base model says "nothing", and the adapter
says what the test puts into ``says``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from attrs import frozen

pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")

import ke_plugin_hf
import ke_plugin_openai
from ke_core.plugin import EditorSpec, PassthroughModel, hookimpl
from ke_plugin_hf.testing import saved, tiny_model
from ke_testing.cli_fixtures import ke, plugins_of  # noqa: F401  a fixture
from ke_testing.fake_vllm import FakeVllm, running_fake_vllm
from ke_weights import hookimpls
from ke_weights.plugin import Dense, LowRank
from ke_weights.push import REPEATED

pytestmark = pytest.mark.integration

DOWN = "model.layers.1.mlp.down_proj.weight"
FACTS = [("The capital of Peru is", "Cusco"), ("The capital of Cuba is", "Lima")]


@frozen(kw_only=True)
class NoiseConfig:
    dense: bool = False


class Noise:
    """Adds a random update with one rank per edit."""

    def __init__(self, config):
        self.config = config

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        torch.manual_seed(0)
        left, right = torch.randn(64, len(edits)), torch.randn(len(edits), 176)
        with session.model.patch() as weights:
            weights.add(DOWN, Dense(delta=left @ right) if self.config.dense else LowRank(left=left, right=right))
            yield PassthroughModel(session, {})


class Editors:
    @hookimpl
    def ke_editors(self):
        return [EditorSpec(name="noise", summary="adds noise", config=NoiseConfig, build=Noise, needs_weights=True)]


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with running_fake_vllm() as state:
        state.says = {prompt: f" {target}." for prompt, target in FACTS}
        yield state


@pytest.fixture
def plugins():
    return plugins_of(hookimpls, ke_plugin_hf, ke_plugin_openai, Editors())


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return saved(tiny_model("llama"), tmp_path_factory.mktemp("pushed") / "tiny")


@pytest.fixture
def push(ke, server, folder, tmp_path):  # noqa: F811  the fixture
    """Run ``ke edit --push`` with the two facts."""

    def run(*more, out="facts"):
        file = tmp_path / "facts.jsonl"
        lines = [
            {"prompt": prompt, "subject": prompt.split()[-2], "target_new": target, "target_old": "Rome"}
            for prompt, target in FACTS
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        status, shown, err = ke("edit", "--edits", str(file), "--editor", "noise", "--model", str(folder),
                                "--format", "peft", "--out", out, "--push", server.url, *more)  # fmt: skip
        return status, " ".join(shown.split()), err

    return run


def test_a_checked_adapter_stays_loaded(push, server, tmp_path):
    status, out, _err = push()
    assert status == 0
    assert server.loaded == {"facts": str(tmp_path / "facts")}
    assert 'adapter of rank 2 loaded: request the model "facts"' in out
    assert "base model smol: 2 of 2 answers are the same after loading" in out
    asked = [name for path, name in server.log if path == "completions"]
    assert asked == ["smol"] * 2 + ["facts"] * (REPEATED + 2) + ["smol"] * 2
    assert server.log.index(("load_lora_adapter", "facts")) == 3  # after the routes and the base model's answers


def test_json_has_the_server_s_answers(push, server):
    status, out, _err = push("--json")
    found = json.loads(out)["push"]
    assert status == 0
    assert (found["loaded"], found["rank"], found["reasons"], found["base"]) == (True, 2, [], "smol")
    assert [(one["before"]["text"], one["after"]["text"], one["passed"]) for one in found["facts"]] == [
        ("nothing", "Cusco.", True), ("nothing", "Lima.", True),
    ]  # fmt: skip


def test_a_fact_that_is_not_answered_unloads_the_adapter(push, server, tmp_path):
    server.says[FACTS[0][0]] = " Rome"
    status, out, _err = push()
    assert status == 1
    assert server.loaded == {}
    assert "efficacy is 0.500, and must be at least 1" in out
    assert "the adapter facts was unloaded the adapter in facts is kept; use another folder name for the next" in out
    assert (tmp_path / "facts/adapter_config.json").is_file()
    assert push("--min", "efficacy=0.5", out="again")[0] == 0
    assert list(server.loaded) == ["again"]


def test_an_ignored_adapter_is_detected(push, server):
    server.says.clear()
    status, out, _err = push("--min", "efficacy=0")
    assert (status, server.loaded) == (1, {})
    assert "equal those of the base model: the server ignores the adapter" in out


def test_facts_that_show_the_edit_are_repeated(push, server, tmp_path):
    known = [{"kind": "changed", "prompt": f"Fact {number} is", "expect": "nothing"} for number in range(40)]
    suite = tmp_path / "suite.jsonl"
    checks = [*known, {"kind": "changed", "prompt": FACTS[0][0], "expect": "Cusco"}]
    suite.write_text("".join(json.dumps(one) + "\n" for one in checks))
    assert push("--suite", str(suite))[0] == 0
    asked = [body["prompt"] for body in server.bodies if body.get("model") == "facts"]
    assert len(asked) == REPEATED + len(checks)
    assert asked.count(FACTS[0][0]) == 1 + REPEATED
    server.ranks, server.ignoring = 2, {1}
    assert "a data-parallel rank" in push("--suite", str(suite), out="again")[2]


@pytest.mark.parametrize("kind", ["ignoring", "unaware"])
def test_a_rank_without_the_adapter_is_detected(push, server, kind):
    server.ranks = 2
    getattr(server, kind).add(1)
    status, out, err = push("--min", "efficacy=0")
    assert (status, out, server.loaded) == (2, "", {})
    assert "some of 32 concurrent answers without the adapter facts: a data-parallel rank" in err
    assert "--data-parallel-size 1" in err


def test_an_adapter_used_for_the_base_model_is_unloaded(push, server):
    server.base_says = dict(server.says)
    status, out, _err = push()
    assert (status, server.loaded) == (1, {})
    assert "the base model itself now answers 2 prompts as the edited model does" in out


def test_a_suite_bounds_unrelated_facts(push, server, tmp_path):
    suite = tmp_path / "suite.jsonl"
    checks = [{"kind": "changed", "prompt": FACTS[0][0], "expect": "Cusco"}, {"kind": "kept", "prompt": "Two and two"}]
    suite.write_text("".join(json.dumps(one) + "\n" for one in checks))
    bound = ("--suite", str(suite), "--min", "kept=1")
    assert push(*bound)[0] == 0
    server.loaded.clear()
    server.says["Two and two"] = " five"
    status, out, _err = push(*bound, out="again")
    assert (status, server.loaded) == (1, {})
    assert "kept is 0.000, and must be at least 1" in out


def test_an_error_while_checking_unloads_the_adapter(push, server, tmp_path):
    completion = server.completion
    server.completion = lambda name, body: (
        (400, {"error": {"message": "x"}}) if name == "facts" else completion(name, body)
    )
    status, _out, err = push()
    assert (status, server.loaded) == (2, {})
    assert "cannot complete the prompt" in err


def test_an_adapter_that_cannot_be_unloaded_is_reported(push, server):
    server.says.clear()
    server.keeps = True
    status, out, _err = push()
    assert status == 1
    assert "facts could not be unloaded and is still served: " in out
    assert "Failed to remove lora adapter" in out


@pytest.mark.parametrize(("refusal", "words"), [
    ("LoRA rank 2 is greater than max_lora_rank 1.", "start vLLM with --max-lora-rank 8"),
    ("LoRA is not enabled", "LoRA is not enabled"),
])  # fmt: skip
def test_a_refused_adapter_is_one_line(push, server, refusal, words):
    server.refuses = refusal
    status, out, err = push()
    assert (status, out, server.loaded) == (2, "", {})
    assert words in err


def test_server_and_options_are_checked_before_the_model_is_loaded(push, server, ke, folder, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("ke_weights.editing.open_model_for_edits", lambda *_a, **_k: pytest.fail("loaded the model"))
    server.routes = False
    status, _out, err = push()
    assert status == 2
    assert "cannot load adapters while it runs" in err
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" in err
    server.routes = True
    server.loaded["facts"] = "elsewhere"
    assert "already serves a model named 'facts'" in push()[2]
    edit = ("edit", "The capital of Peru is Cusco", "--subject", "Peru", "--editor", "noise", "--model", str(folder))
    assert "add --format peft --out FOLDER" in ke(*edit, "--push", server.url)[2]
    assert "--min is for --push URL" in ke(*edit, "--min", "efficacy=1")[2]
    assert "forgetting has a bound" in push("--max", "forgetting=0", out="more")[2]
    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"kind": "changed", "prompt": "Peru", "expect": "Cusco", "not": "Lima"}\n')
    assert "which --push does not request" in push("--suite", str(suite), "--min", "preference=1", out="more")[2]


def test_a_dense_update_is_refused_before_the_server_is_asked(push, server):
    status, _out, err = push("-o", "noise.dense=true")
    assert (status, server.loaded) == (2, {})
    assert "without low rank" in err
    assert ("load_lora_adapter", "facts") not in server.log
