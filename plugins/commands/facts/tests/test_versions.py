"""The folder of a managed model, and what a server keeps of it. No model is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from ke_core.app import CallProgress, Component, ModelRef, installed_catalog
from ke_core.plugin import KEError, ModelRequest, ModelUnavailable, ServerFailed
from ke_plugin_facts.applying import Applied
from ke_plugin_facts.planning import ModelPlan
from ke_plugin_facts.pushing import VersionServer
from ke_plugin_facts.report import apply_json, rollback_json
from ke_plugin_facts.versions import MODEL, Lock, LockedFact, ManagedFolder
from ke_weights.patches.info import PatchBase

EDITOR = Component(name="ft", distribution="ke-plugin-ft", version="1")
LOCK = Lock(
    version="0001", parent="", action="apply", created="2026-11-01", author="anna", file="facts.toml", file_digest="",
    format="peft", base=PatchBase(model=ModelRef(source="hf", id="m"), weights="w", size=1), editor=EDITOR, seed=0,
    software={}, facts=(), patch="", weights="w",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with three versions, whose models are kept."""
    folder = ManagedFolder(root=tmp_path / "edited", keep=3)
    for version, parent in (("0001", ""), ("0002", "0001"), ("0003", "0002")):
        add(folder, version, parent)
    assert models_in(folder) == ["0001", "0002", "0003"]
    return folder.root


def add(folder: ManagedFolder, version: str, parent: str, *, accepted: bool = True) -> None:
    with folder.changing():
        lock = evolve(LOCK, version=version, parent=parent)
        assert folder.add(lock, lambda to: (to / MODEL).mkdir(), lambda: accepted) is accepted


def models_in(folder: ManagedFolder) -> list[str]:
    return [path.name for path in folder.versions() if (path / MODEL).exists()]


def test_models_are_removed_only_after_a_new_version_was_added(root: Path) -> None:
    folder = ManagedFolder(root=root)  # keeps one model
    with folder.changing():
        pass
    add(folder, "0004", "0003", accepted=False)
    assert models_in(folder) == ["0001", "0002", "0003"]
    add(folder, "0004", "0003")
    assert models_in(folder) == ["0004"]


class StoppedServer:
    """Adapters of a server that does not answer any more."""

    def names(self) -> list[str]:
        raise ModelUnavailable("connection refused")

    def base_model(self, _name: str) -> str:
        raise ModelUnavailable("connection refused")

    def load(self, _name: str, _folder: Path, _rank: int) -> None:
        raise ServerFailed("connection refused")

    def unload(self, _name: str) -> None:
        raise ServerFailed("connection refused")


def test_old_versions_of_a_server_that_stopped_answering_are_reported(root: Path) -> None:
    folder = ManagedFolder(root=root)
    server = VersionServer(
        url="http://127.0.0.1:1", how=ModelRequest(id=""), catalog=installed_catalog(), progress=CallProgress(),
        folder=folder, adapters=StoppedServer(), served=("base", "edited-0002", "edited-0003"),
    )  # fmt: skip
    with pytest.raises(KEError):
        server.serves("0003")
    add(folder, "0004", "0003")
    assert server.unload_removed() == ("edited-0002", "edited-0003")


def test_json_names_the_versions_that_are_still_served() -> None:
    made = Applied(lock=LOCK, verification=None, stuck=("edited-0001",))
    plan = ModelPlan(loaded=None, current=None, facts=(), job=None, component=EDITOR)  # type: ignore[arg-type]  # not used
    assert apply_json(plan, made)["still_served"] == rollback_json(made)["still_served"] == ["edited-0001"]
    assert apply_json(plan, None)["still_served"] == []


def test_the_log_shows_ten_changes_of_a_version_and_their_number(
    tmp_path: Path, ke: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = tuple(LockedFact(id=f"f{n}", digest="", statement=f"fact number {n}.", edited=True) for n in range(1000))
    folder = ManagedFolder(root=tmp_path / "edited")
    with folder.changing():
        folder.add(evolve(LOCK, facts=facts), lambda to: (to / MODEL).mkdir(), lambda: True)
    assert ke("patch", "log", "--out", folder.root) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("added") == 10
    assert "... and 990 more; --json shows all" in shown
    assert ke("patch", "log", "--out", folder.root, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)[0]["changes"]) == 1000


@pytest.mark.parametrize("words", [("patch", "log"), ("rollback",)])
def test_a_folder_without_versions_is_an_error_before_torch_is_imported(words: tuple[str, ...], tmp_path: Path) -> None:
    code = "import sys; from ke_core.cli.main import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    command = [sys.executable, "-c", code, *words, "--out", "nowhere"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout == "2 False\n"
    assert "error: nowhere has no version" in done.stderr
