"""docs/plugins.md: its commands and names exist, and its first steps work."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.manager import discover
from ke_testing import fixtures

pytestmark = pytest.mark.docs

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    ke (.+)$", PAGE, re.MULTILINE)


def test_every_plugin_on_the_page_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for line in COMMANDS if line.startswith("new ")]
    for line in lines:
        app = App(discover())
        assert not invoke(build(app), shlex.split(line), app)
    assert {path.name for path in tmp_path.iterdir()} == {f"ke-plugin-{shlex.split(line)[2]}" for line in lines}
    assert {shlex.split(line)[1] for line in lines} == {"editor", "dataset", "metric", "judge"}
    told = re.findall(r"^\| `([\w./]+)`", PAGE.split("## 4")[0], re.MULTILINE)
    assert all((tmp_path / "ke-plugin-my-method" / name).is_file() for name in told)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_on_the_page_exists(line: str) -> None:
    app = App(discover())
    root, words = build(app), shlex.split(line)
    context = click.Context(root, info_name="ke", obj=app)
    name, command, rest = root.resolve_command(context, words)
    assert command is not None
    loaded = command.load() if hasattr(command, "load") else command
    if isinstance(loaded, click.Group):
        _name, loaded, rest = loaded.resolve_command(click.Context(loaded, info_name=name, obj=app), rest)
    assert loaded is not None
    loaded.make_context("ke", rest, obj=app)


def test_names_of_the_testing_toolkit_on_the_page_exist() -> None:
    section = PAGE.split("The contracts:")[1].split("## 5")[0]
    prose = "\n".join(line for line in section.splitlines() if not line.startswith("|"))
    named = re.findall(r"`(ke_[\w.]+)\.(\w+)(?:\(\))?`", prose)
    for module, contracts in re.findall(r"^\| `(ke_[\w.]+)` \| (.+) \|$", section, re.MULTILINE):
        named += [(module, name) for name in re.findall(r"`(\w+)`", contracts)]
    assert len(named) > 10
    for module, name in named:
        assert hasattr(importlib.import_module(module), name)
    for name in ("ke_session", "ke_cache_dir", "ke_data_dir", "one_thread"):
        assert f"`{name}`" in PAGE
        assert hasattr(fixtures, name)


def test_python_in_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, object] = {}
    exec(compile(block, "plugins.md", "exec"), made)
    assert getattr(made["TestMyMethod"], "name", "") == "my-method"
