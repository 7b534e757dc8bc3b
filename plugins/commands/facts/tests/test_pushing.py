"""``ke apply --push``: versions are served as adapters by a server that follows vLLM's routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")

import ke_plugin_hf
import ke_plugin_openai
from ke_core.app import Plugins
from ke_core.plugin import Edit, EditorSpec, PassthroughModel, Session, hookimpl, loads
from ke_plugin_facts import hookimpls as facts_plugin
from ke_plugin_facts.versions import ManagedFolder
from ke_testing.cli_fixtures import ke as ke_words  # noqa: F401  a fixture
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fake_vllm import FakeVllm, running_fake_vllm
from ke_weights import hookimpls
from ke_weights.plugin import LowRank, OpenModel

pytestmark = pytest.mark.integration  # whole commands, a server

DOWN = "model.layers.1.mlp.down_proj.weight"
FACTS = """
model = "{model}"
editor = "noise"
format = "peft"

[bounds.min]
efficacy = 0.0

[[facts]]
id = "peru"
prompt = "The capital of {{}} is"
subject = "Peru"
target = "Cusco"

[[facts]]
prompt = "The capital of {{}} is"
subject = "Chile"
target = "Arica"
"""


class Noise:
    """Adds a small random update with one rank per edit."""

    def check(self, _session: Session[OpenModel], _edits: Sequence[Edit]) -> Mapping[str, str]:
        return {}

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[PassthroughModel]:
        torch.manual_seed(sum(map(ord, "".join(one.statement for one in edits))))
        left, right = torch.randn(64, len(edits)) / 100, torch.randn(len(edits), 176) / 100
        with session.model.patch() as weights:
            weights.add(DOWN, LowRank(left=left, right=right))
            yield PassthroughModel(session, {})


class NoisePlugin:
    @hookimpl
    def ke_editors(self) -> list[EditorSpec]:
        return [EditorSpec(name="noise", summary="adds noise", build=lambda _config: Noise(), needs_weights=True)]


@pytest.fixture
def plugins() -> Plugins:
    return plugins_of(hookimpls, ke_plugin_hf, ke_plugin_openai, facts_plugin, NoisePlugin())


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    """A server whose adapters answer their edits with the new objects."""
    with running_fake_vllm() as state:
        yield state


@pytest.fixture
def file(tmp_path: Path, model: Path) -> Path:
    path = tmp_path / "facts.toml"
    path.write_text(FACTS.format(model=model), encoding="utf-8")
    return path


@pytest.fixture
def apply(ke_words: Any, file: Path, server: FakeVllm) -> Callable[..., tuple[int, str, str]]:  # noqa: F811
    """Run ``ke apply --push``. Return the exit status and the output without line breaks."""

    def run(*more: str) -> tuple[int, str, str]:
        status, out, err = ke_words("apply", str(file), "--push", server.url, *more)
        return status, " ".join(out.split()), " ".join(err.split())

    return run


def current(file: Path) -> str:
    lock = ManagedFolder(root=file.parent / "edited").current()
    return lock.version if lock else ""


def change(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def test_the_server_serves_the_versions_that_the_folder_keeps(apply: Any, server: FakeVllm, file: Path) -> None:
    status, out, err = apply()
    assert (status, list(server.loaded)) == (0, ["edited-0001"]), err
    assert 'request the model "edited-0001"' in out
    assert server.loaded["edited-0001"] == str(file.parent / "edited/versions/0001/model")
    change(file, "Cusco", "Lima")
    assert apply("--keep", "2")[0] == 0
    assert list(server.loaded) == ["edited-0001", "edited-0002"]
    change(file, "Lima", "Ica")
    assert apply()[0] == 0
    assert list(server.loaded) == ["edited-0003"]
    change(file, "Ica", "Lima")
    server.keeps = True
    status, out, _err = apply()
    assert (status, current(file)) == (0, "0004")
    assert "edited-0003 could not be unloaded and may still be served" in out
    status, out, _err = apply()  # nothing to change, but the version is tried again
    assert (status, current(file)) == (0, "0004")
    assert "edited-0003 could not be unloaded and may still be served" in out
    server.keeps = False
    assert loads(apply("--json")[1])["changed"] is False
    assert list(server.loaded) == ["edited-0004"]


def test_a_failed_check_leaves_the_earlier_version(apply: Any, server: FakeVllm, file: Path) -> None:
    assert apply()[0] == 0
    change(file, "Cusco", "Lima")
    server.says = {}
    status, out, _err = apply()
    assert (status, current(file), list(server.loaded)) == (1, "0001", ["edited-0001"])
    assert "the server ignores the adapter" in out
    assert "The check on the server failed, so nothing was changed." in out
    assert [path.name for path in ManagedFolder(root=file.parent / "edited").versions()] == ["0001"]
    server.refuses = "LoRA is not enabled"
    assert apply()[0] == 2
    assert [path.name for path in ManagedFolder(root=file.parent / "edited").versions()] == ["0001"]
    server.says, server.refuses = None, ""
    assert apply()[0] == 0
    # no number is used twice: the server may have cached the refused versions by their names
    assert (current(file), list(server.loaded)) == ("0004", ["edited-0004"])


def test_a_restarted_server_gets_the_current_version(apply: Any, server: FakeVllm, file: Path) -> None:
    assert apply()[0] == 0
    server.loaded.clear()
    found = loads(apply("--json")[1])
    assert (found["changed"], found["push"]["loaded"], found["version"]) == (False, True, "0001")
    assert list(server.loaded) == ["edited-0001"]
    asked = len(server.log)
    assert loads(apply("--json")[1])["push"] is None
    assert {name for path, name in server.log[asked:] if path == "load_lora_adapter"} == set()


def test_an_adapter_that_a_killed_process_left_is_replaced(apply: Any, server: FakeVllm, file: Path) -> None:
    server.loaded["edited-0001"] = "elsewhere"
    assert apply()[0] == 0
    assert server.loaded["edited-0001"] == str(file.parent / "edited/versions/0001/model")


def test_the_server_and_the_format_are_checked_first(
    apply: Any, server: FakeVllm, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ke_plugin_facts.planning.open_model_for_edits", lambda *_a: pytest.fail("loaded the model"))
    server.routes = False
    assert "cannot load adapters while it runs" in apply()[2]
    assert "add --format peft" in apply("--format", "merged")[2]


def test_a_rollback_is_served_too(apply: Any, ke_words: Any, server: FakeVllm, file: Path, model: Path) -> None:  # noqa: F811
    assert apply()[0] == 0
    change(file, "Cusco", "Lima")
    assert apply()[0] == 0
    rollback = ("rollback", "--out", str(file.parent / "edited"), "--model", str(model), "--push", server.url)
    status, out, _err = ke_words(*rollback, "--json")
    assert (status, loads(out)["restores"], loads(out)["push"]["loaded"]) == (0, "0001", True)
    assert (current(file), list(server.loaded)) == ("0003", ["edited-0003"])
    server.says = {}
    assert ke_words(*rollback)[0] == 1
    assert (current(file), list(server.loaded)) == ("0003", ["edited-0003"])
    assert ke_words(*rollback, "--to", "base")[0] == 0
    assert (current(file), list(server.loaded)) == ("0005", [])


def test_a_checkpoint_is_not_rolled_back_to_on_a_server(
    apply: Any,
    ke_words: Any,  # noqa: F811
    server: FakeVllm,
    file: Path,
    model: Path,
) -> None:
    assert ke_words("apply", str(file), "--format", "merged")[0] == 0
    change(file, "Cusco", "Lima")
    assert apply()[0] == 0
    rollback = ("rollback", "--out", str(file.parent / "edited"), "--model", str(model), "--push", server.url)
    assert "version 0001 is a checkpoint, not an adapter" in ke_words(*rollback)[2]
    assert current(file) == "0002"


def test_a_version_without_edits_is_not_served(apply: Any, server: FakeVllm, file: Path) -> None:
    assert apply()[0] == 0
    file.write_text("facts = []\n" + file.read_text().partition("[[facts]]")[0])
    assert apply()[0] == 0
    assert (current(file), list(server.loaded)) == ("0002", [])
