"""``ke plugins search`` and ``install``: what is known, and what pip is told to do."""

import io
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


@pytest.mark.parametrize(
    ("word", "names"),
    [("memory", {"mello", "pokemqa", "gwalk", "deepedit", "ice", "ike"}), ("in-context", {"ice", "ike", "input-aug"})],
)
def test_search_finds_the_editors_beside_the_model_by_what_one_calls_them(word, names):
    assert {entry.name for entry in matching([word], kind="editor")} == names


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
    assert "no plugin matches all of these words" in out


NEWER = '{"editor": {"newest": ["ke-plugin-newest", "edits [red]later[/red]"]}}'


def test_search_reads_a_newer_list_from_a_file(ke, tmp_path):
    (tmp_path / "newer.json").write_text(NEWER)
    status, out, _err = ke("plugins", "search", "edits", "--directory", "newer.json")
    assert status == 0
    assert "edits [red]later[/red]" in out
    assert "pip install ke-plugin-newest" in out
    assert "mello" not in out


def test_search_reads_a_newer_list_behind_an_address(ke, monkeypatch):
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        answer = io.BytesIO(NEWER.encode())
        answer.length = 0
        return answer

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    assert "newest" in ke("plugins", "search", "--directory", "https://example.org/directory.json")[1]
    assert asked == ["https://example.org/directory.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "[] is not an object"),
        ("{", "Expecting property name"),
        ('{"editor": {"a": ["--index-url=x", "s"]}}', "editor a is"),
        ('{"editor": {"a": ["ke-plugin-a"]}}', "editor a is"),
        ('{"spell": {"a": ["ke-plugin-a", "s"]}}', "spell a is"),
    ],
)
def test_a_list_that_is_none_is_one_line(ke, tmp_path, text, why):
    (tmp_path / "bad.json").write_text(text)
    status, _out, err = ke("plugins", "search", "--directory", "bad.json")
    assert status == 2
    assert err.startswith(f"error: bad.json is not a directory of plugins: {why}")


def test_an_empty_list_has_nothing(ke, tmp_path):
    (tmp_path / "empty.json").write_text("{}")
    assert ke("plugins", "search", "--directory", "empty.json")[0] == 1


def test_a_list_is_read_over_https_alone_and_must_be_there(ke):
    assert "begins with https://" in ke("plugins", "search", "--directory", "http://example.org/d.json")[2]
    assert "is not a directory of plugins" in ke("plugins", "search", "--directory", "nowhere.json")[2]


def test_install_shows_the_command_and_leaves_it_where_nobody_can_be_asked(ke, pip):
    status, _out, err = ke("plugins", "install", "mello")
    assert status == 2
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
