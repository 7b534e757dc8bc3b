"""The GitHub workflow and the pre-commit hook of ``contrib``: their own commands, in a git repository."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CONTRIB = Path(__file__).resolve().parents[1] / "contrib"
FACTS = """\
model = "smollm2-135m"
editor = "memit"

[[facts]]
prompt = "The capital of {} is"
subject = "France"
target = "Paris"

[[facts]]
prompt = "The capital of {} is"
subject = "Peru"
target = "%s"
"""
GITHUB = {"GITHUB_BASE_REF": "main", "GH_TOKEN": "none", "COLUMNS": "100"}
NUMBER = ("${{ github.event.number }}", "7")
FAKE_GH = """\
#!/bin/sh
echo "$1 $2 $3" && cat "$5"
"""

pytestmark = [pytest.mark.integration, pytest.mark.model, pytest.mark.timeout(300)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A pull request: ``facts.toml`` of the main branch gives Peru the capital Lima, the current one Cusco."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(FAKE_GH, encoding="utf-8")
    (tools / "gh").chmod(0o755)
    folder = tmp_path / "repository"
    folder.mkdir()
    facts = folder / "facts.toml"
    facts.write_text(FACTS % "Lima", encoding="utf-8")
    for words in (
        "init -q -b main", "add facts.toml",
        "-c user.name=someone -c user.email=someone@example.org commit -q -m facts",
        "update-ref refs/remotes/origin/main HEAD",
    ):  # fmt: skip
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    facts.write_text(FACTS % "Cusco", encoding="utf-8")
    return folder


def steps() -> dict[str, Any]:
    """Return the commands of the workflow by the name of their step."""
    jobs = yaml.safe_load((CONTRIB / "github-action.yml").read_text(encoding="utf-8"))["jobs"]
    return {step["name"]: step["run"] for step in jobs["facts"]["steps"] if "name" in step}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a step of a workflow: bash stops at the first error."""
    path = os.pathsep.join([str(folder.parent / "tools"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command.replace(*NUMBER)],
        cwd=folder, env={**os.environ, **GITHUB, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_pull_request_gets_a_comment_with_the_changed_facts_and_the_plan(repository: Path) -> None:
    found = steps()
    for name in ("lint", "compare", "comment"):
        done = run(found[name], repository)
        assert done.returncode == 0, done.stderr
    first, *body = done.stdout.splitlines()
    assert first == "pr comment 7"
    changed, plan = "\n".join(body).split("### Plan")
    assert "Peru" in changed
    assert "Cusco" in changed
    assert "Lima" in changed
    assert "France" not in changed
    assert "Cusco" in plan


def test_an_error_in_the_plan_fails_the_step(repository: Path) -> None:
    facts = repository / "facts.toml"
    facts.write_text(facts.read_text(encoding="utf-8").replace("smollm2-135m", "no-such-model"), encoding="utf-8")
    done = run(steps()["compare"], repository)
    assert done.returncode != 0
    assert "no-such-model" in done.stderr
    assert not (repository / "comment.md").exists()


def test_the_hook_refuses_a_file_with_an_error(repository: Path) -> None:
    (hook,) = yaml.safe_load((CONTRIB / "pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    command = shlex.join([*shlex.split(hook["entry"]), "facts.toml"])
    assert run(command, repository).returncode == 0
    with (repository / "facts.toml").open("a", encoding="utf-8") as file:
        file.write('\n[[facts]]\nprompt = "The capital of {} is"\nsubject = "Peru"\ntarget = "Lima"\n')
    refused = run(command, repository)
    assert refused.returncode != 0
    assert "Peru" in refused.stderr + refused.stdout
