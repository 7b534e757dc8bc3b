"""``ke plugins search`` and ``ke plugins install``."""

import subprocess
import sys

import pytest
from attrs import evolve

from ke_core.cli import plugins as commands
from ke_core.plugin import hookimpl
from ke_core.plugins.directory import matching
from ke_core.plugins.manager import Installed
from ke_testing.toy import toy_spec


@pytest.fixture
def pip(monkeypatch):
    """Record the calls of pip, which ends with ``pip.status``."""

    class Calls(list):
        status = 0

    calls = Calls()

    def run(line, **_more):
        calls.append(line)
        return subprocess.CompletedProcess(line, calls.status)

    monkeypatch.setattr(commands.subprocess, "run", run)
    return calls


def test_search_finds_entries_with_all_words_and_the_install_command(ke):
    status, out, _err = ke("plugins", "search", "SET", "answers")
    flat = " ".join(out.split())
    assert status == 0
    assert "ke plugins install set-answers" in flat
    assert "ke plugins install memit" not in flat


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("memory", {"mello", "pokemqa", "gwalk", "deepedit", "ice", "ike"}),
        ("in-context", {"ice", "ike", "input-aug", "rag", "scr"}),
    ],
)
def test_search_finds_editors_by_common_terms(word, names):
    assert {entry.name for entry in matching([word], kind="editor")} == names


def test_search_filters_by_kind_and_marks_installed_components(ke, plugins):
    assert "mquake-cf" not in ke("plugins", "search", "--kind", "judge")[1]

    class Brings:
        @hookimpl
        def ke_datasets(self):
            return [evolve(toy_spec(), name="atlas", family="")]

    plugins.register(Brings(), "ke-plugin-atlas")
    row = next(
        line for line in ke("plugins", "search", "--kind", "dataset", "atlas")[1].splitlines() if " atlas " in line
    )
    assert "installed" in row


def test_search_without_results_has_status_1(ke):
    status, out, _err = ke("plugins", "search", "no", "such", "words")
    assert status == 1
    assert "no plugin matches all of these words" in out


def test_install_without_a_terminal_only_prints_the_command(ke, pip):
    status, _out, err = ke("plugins", "install", "mello")
    assert status == 2
    assert f"{sys.executable} -m pip install --upgrade ke-plugin-mello" in err
    assert "--yes" in err
    assert pip == []


def test_install_runs_pip_once_for_each_distribution(ke, pip):
    status, out, _err = ke("plugins", "install", "mquake-cf-3k", "ke-plugin-mquake", "ripple", "--yes")
    assert status == 0
    assert pip == [[sys.executable, "-m", "pip", "install", "--upgrade", "ke-plugin-mquake", "ke-plugin-ripple"]]
    assert "installed: ke-plugin-mquake, ke-plugin-ripple" in out


def test_install_skips_working_plugins_and_reinstalls_broken_ones(ke, pip, plugins):
    for name, broken in (("ke-plugin-mello", ""), ("ke-plugin-memit", "no luck")):
        plugins.installed[name] = Installed(name=name, module="m", distribution=name, broken=broken)
    assert "already installed" in ke("plugins", "install", "mello", "--yes")[1]
    assert pip == []
    ke("plugins", "install", "mello", "memit", "--yes")
    assert pip[0][-1] == "ke-plugin-memit"


def test_a_pip_that_fails_is_said(ke, pip):
    pip.status = 1
    status, _out, err = ke("plugins", "install", "mello", "--yes")
    assert status == 1
    assert "pip failed" in err


def test_what_is_not_known_is_not_installed(ke, pip):
    status, _out, err = ke("plugins", "install", "mellow", "--yes")
    assert status == 2
    assert err.splitlines() == ["error: no plugin called 'mellow' is known", "hint:  did you mean 'mello'?"]
    assert pip == []
