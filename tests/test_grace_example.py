"""The example of an adaptor passes its contract, and is saved, verified and served."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import run_ke, served_completion, served_edit

EXAMPLE = Path(__file__).resolve().parents[1] / "docs/examples/grace"


def install(site: Path) -> Path:
    """Install the example into ``site`` as pip does."""
    info = site / "ke_plugin_grace_like-0.1.0.dist-info"
    info.mkdir(parents=True)
    about = "Metadata-Version: 2.1\nName: ke-plugin-grace-like\nVersion: 0.1.0\nRequires-Dist: ke-core<0.2,>=0.1\n"
    (info / "METADATA").write_text(about, encoding="utf-8")
    (info / "entry_points.txt").write_text("[ke]\nke-plugin-grace-like = grace_like\n", encoding="utf-8")
    for file in EXAMPLE.glob("*.py"):
        (site / file.name).symlink_to(file)
    return site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("grace") / "site")


@pytest.fixture(autouse=True)
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of the processes that a test starts."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))


pytestmark = pytest.mark.integration

SUITE = [
    {"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"},
    {"kind": "kept", "prompt": "The capital of France is"},
]
EDIT = ("The capital of Peru is => La Paz", "--subject", "Peru")
OPTIONS = ("-o", "grace-like.steps=20")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def ke(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line with a separate cache."""
    return partial(run_ke, tmp_path)


def edited(ke: Callable[..., Any], model: Path, *more: object) -> dict[str, Any]:
    done = ke("edit", *EDIT, "--editor", "grace-like", *OPTIONS, "--model", model, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_saved_adaptor_is_verified_and_served(ke: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    done = edited(ke, model, "--out", tmp_path / "saved")
    assert done["written"] == [f"adaptor: {tmp_path / 'saved'}"]
    assert sorted(file.name for file in (tmp_path / "saved").iterdir()) == ["ke_edit.json", "ke_state.safetensors"]
    after = done["edits"][0]["after"]
    assert after["logprobs"][0] > done["edits"][0]["before"]["logprobs"][0] + 1

    suite = tmp_path / "suite.jsonl"
    suite.write_text("".join(f"{json.dumps(line)}\n" for line in SUITE), encoding="utf-8")
    verified = ke("verify", tmp_path / "saved", "--suite", suite, "--model", model, "--max", "forgetting=0", "--json")
    assert verified.returncode == 0, verified.stderr
    changed = json.loads(verified.stdout)["facts"][0]
    assert changed["after"]["text"] == after["text"]
    assert changed["before"]["text"] == done["edits"][0]["before"]["text"]

    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install ke-plugin-serve")
    with served_edit(tmp_path / "saved", model) as url:
        assert served_completion(url, "The capital of Peru is") == after["text"]
        with build_opener(ProxyHandler({})).open(f"{url}/edits", timeout=60) as reply:
            assert "The capital of Peru is La Paz" in reply.read().decode()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--patch", "x.safetensors"), "--patch saves weight updates, but grace-like is an adaptor"),
        (("--out", "x", "--format", "peft"), "--format peft saves weight updates"),
    ],
)
def test_options_of_weight_editors_are_refused_before_the_model_is_loaded(
    ke: Callable[..., Any], more: tuple[str, ...], why: str
) -> None:
    done = ke("edit", *EDIT, "--editor", "grace-like", "--model", "no-such-model", *more)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_saved_adaptor_is_refused_by_another_model(ke: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    edited(ke, model, "--out", tmp_path / "saved")
    other = saved(tiny_model(seed=1), tmp_path / "other")
    suite = tmp_path / "suite.jsonl"
    suite.write_text(json.dumps(SUITE[1]), encoding="utf-8")
    done = ke("verify", tmp_path / "saved", "--suite", suite, "--model", other)
    assert done.returncode == 2
    assert "was made for another model" in done.stderr


def test_ke_show_names_the_kind(ke: Callable[..., Any]) -> None:
    done = ke("show", "grace-like")
    assert "adaptor, from ke-plugin-grace-like 0.1.0" in done.stdout
    assert "weight editor, from" in ke("show", "rome").stdout
    assert "memory editor, from" in ke("show", "mello").stdout


def test_ke_plugins_check_finds_nothing_broken(ke: Callable[..., Any]) -> None:
    """It runs the contract of adaptors."""
    done = ke("plugins", "check", "grace-like", "-o", "grace-like.steps=5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"editor grace-like: \d\d passed, \d skipped", done.stdout)
    assert "broken" not in done.stdout
