"""A run on a benchmark file of one's own: its specification holds the content alone, and it is found again."""

import json
from pathlib import Path

import pytest
from attrs import evolve, field, frozen

from ke_core.plugin import hookimpl
from ke_testing.toy import Toy, ToyConfig, toy_spec

AGAIN = (("judge", "done"), ("score", "done"), ("compare", "done", "second"))


@frozen(kw_only=True)
class Config(ToyConfig):
    file: str = field(default="", metadata={"file": True})
    data_dir: str = ""


@frozen(kw_only=True)
class FromFile(Toy):
    """Each line of the file names a case of the toy."""

    def cases(self):
        named = Path(self.config.file).read_text(encoding="utf-8").split()
        return (case for case in Toy().cases() if case.id in named)


class Mine:
    @hookimpl
    def ke_datasets(self):
        spec = toy_spec(metrics=("accuracy",), judge="exact")
        return [evolve(spec, name="mine", config=Config, build=lambda config: FromFile(config=config))]


@pytest.fixture
def plugins(plugins):
    plugins.register(Mine(), "mine")
    return plugins


@pytest.fixture
def run(ke, tmp_path):
    """Finished runs in ``done`` and ``second`` on the file ``own.txt``."""
    (tmp_path / "own.txt").write_text("1\n2\n")
    for editor, folder in (("sayer", "done"), ("other", "second")):
        options = ("--editor", editor, "--dataset", "mine", "--model", "echo:1", "-o", "mine.file=own.txt")
        assert ke("eval", *options, "--out", folder)[0] == 0
    return tmp_path / "done"


@pytest.mark.parametrize("command", AGAIN)
def test_run_on_a_user_file_is_judged_scored_and_compared(ke, run, command):
    raw = json.loads((run / "run.json").read_text())
    assert "own.txt" not in json.dumps(raw["spec"])  # the same content elsewhere is the same run
    status, _out, err = ke(*command)
    assert status == 0, err


@pytest.mark.parametrize("command", AGAIN)
def test_moved_file_is_found_in_the_data_folder_under_any_name(ke, run, tmp_path, command):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "another.txt").write_text("1\n")
    (tmp_path / "own.txt").rename(tmp_path / "data" / "kept.txt")
    status, _out, err = ke(*command)
    assert status == 2
    assert err.startswith(
        f"error: {tmp_path / 'own.txt'}, which the run was made with (-o mine.file), is not there any"
    )
    assert ke(*command, "--data-dir", "data")[0] == 0


def test_a_file_that_has_changed_is_refused(ke, run, tmp_path):
    (tmp_path / "own.txt").write_text("1\n")
    status, _out, err = ke("judge", "done")
    assert status == 2
    assert err.startswith(f"error: {tmp_path / 'own.txt'}, which the run was made with (-o mine.file), has changed")


def test_run_without_a_recorded_file_path_needs_a_data_folder(ke, run, tmp_path):
    raw = json.loads((run / "run.json").read_text())
    del raw["files"]
    (run / "run.json").write_text(json.dumps(raw))
    status, _out, err = ke("judge", "done")
    assert (status, err.splitlines()[0]) == (2, "error: the file of -o mine.file is not known")
    (tmp_path / "data").mkdir()
    (tmp_path / "own.txt").rename(tmp_path / "data" / "own.txt")
    assert ke("judge", "done", "--data-dir", "data")[0] == 0
