"""``ke plugins search`` and ``install``: what is known, and what pip is told to do."""

import subprocess
import sys

import pytest
from attrs import evolve

from ke_core.cli import plugins as commands
from ke_core.plugin import hookimpl
from ke_core.plugins.manager import Installed
from ke_core.testing.toy import toy_spec


@pytest.fixture
def pip(monkeypatch):
    """What pip was called with; it ends with ``pip.status``."""

    class Calls(list):
        status = 0

    calls = Calls()

    def run(line, **_more):
        calls.append(line)
        return subprocess.CompletedProcess(line, calls.status)

    monkeypatch.setattr(commands.subprocess, "run", run)
    return calls


def test_search_finds_what_has_all_words_and_says_how_to_install_it(ke):
    status, out, _err = ke("plugins", "search", "SET", "answers")
    flat = " ".join(out.split())
    assert status == 0
    assert "ke plugins install set-answers" in flat
    assert "ke plugins install memit" not in flat


def test_search_keeps_to_a_kind_and_marks_what_is_installed(ke, plugins):
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


def test_search_without_a_find_has_a_status_of_its_own(ke):
    status, out, _err = ke("plugins", "search", "no", "such", "words")
    assert status == 1
    assert "nothing that is known" in out


def test_install_shows_the_command_and_leaves_it_where_nobody_can_be_asked(ke, pip):
    status, _out, err = ke("plugins", "install", "mello")
    assert status == 0
    assert f"{sys.executable} -m pip install --upgrade ke-plugin-mello" in err
    assert "--yes" in err
    assert pip == []


def test_install_runs_pip_for_each_distribution_once_whatever_names_it(ke, pip):
    status, out, _err = ke("plugins", "install", "mquake-cf-3k", "ke-plugin-mquake", "ripple", "--yes")
    assert status == 0
    assert pip == [[sys.executable, "-m", "pip", "install", "--upgrade", "ke-plugin-mquake", "ke-plugin-ripple"]]
    assert "installed: ke-plugin-mquake, ke-plugin-ripple" in out


def test_install_leaves_what_is_there_and_mends_what_is_broken(ke, pip, plugins):
    for name, broken in (("ke-plugin-mello", ""), ("ke-plugin-memit", "no luck")):
        plugins.installed[name] = Installed(name=name, module="m", distribution=name, broken=broken)
    assert "all of that is installed" in ke("plugins", "install", "mello", "--yes")[1]
    assert pip == []
    ke("plugins", "install", "mello", "memit", "--yes")
    assert pip[0][-1] == "ke-plugin-memit"


def test_a_pip_that_fails_is_said(ke, pip):
    pip.status = 1
    status, _out, err = ke("plugins", "install", "mello", "--yes")
    assert status == 1
    assert "pip could not install that" in err


def test_what_is_not_known_is_not_installed(ke, pip):
    status, _out, err = ke("plugins", "install", "mellow", "--yes")
    assert status == 2
    assert err.splitlines() == ["error: no plugin called 'mellow' is known", "hint:  did you mean 'mello'?"]
    assert pip == []
