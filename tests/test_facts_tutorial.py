"""The tutorial about a file of facts, typed as written, with the real model."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ke_core.app import main
from ke_plugin_facts.versions import ManagedFolder
from ke_weights.testing.resuming import served, served_completion

PAGE = Path(__file__).resolve().parents[1] / "docs/tutorials/facts-as-code.md"
STATUS = {"ke plan facts.toml": 2, "ke facts add": 2}

pytestmark = [pytest.mark.docs, pytest.mark.model, pytest.mark.timeout(900)]


def test_the_tutorial_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ke_plugin_serve", reason="needs ke-plugin-serve")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    printed = ""
    for token in MarkdownIt("commonmark").parse(PAGE.read_text(encoding="utf-8")):
        if token.info == "toml":
            Path("facts.toml").write_text(token.content, encoding="utf-8")
        elif token.info == "sh":
            printed = "".join(typed(line, tmp_path, capsys) for line in token.content.splitlines())
        elif token.info == "text":
            assert token.content.strip() in printed
    *_, first = versions = [*ManagedFolder(root=Path("edited")).chain()]
    assert versions[0].weights == first.base.weights != first.weights


def typed(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command of the page, and return what it printed. A server is asked a fact, and stopped."""
    words = shlex.split(line)
    if words[:2] == ["ke", "serve"]:
        with served(folder, *words[2:]) as url:
            assert served_completion(url, "The capital of Peru is", model="model").startswith("Cusco")
        return ""
    if words[0] != "ke":
        subprocess.run(words, check=True)  # ssh-keygen
        return ""
    capsys.readouterr()
    expected = next((status for start, status in STATUS.items() if line.startswith(start)), 0)
    status, found = main(words[1:]), capsys.readouterr()
    assert status == expected, found.out + found.err
    return found.out + found.err
