"""A plugin whose code changed under the same version: its runs are not resumed, and can still be judged and scored."""

import json
import sys
from types import ModuleType

import pytest
from attrs import evolve

from ke_core.plugins import code
from ke_core.results.folder import RunFolder

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


@pytest.fixture
def change(plugins, tmp_path, monkeypatch):
    """Write the file that the plugin's components come from."""
    file = tmp_path / "toy_plugin.py"
    module = ModuleType("toy_plugin")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "toy_plugin", module)
    known = plugins.installed["toys"]
    plugins.installed["toys"] = evolve(known, module="toy_plugin", distribution="ke-plugin-toys", version="0.1.0")

    def changed(text):
        file.write_text(text)
        code._package_digest.cache_clear()

    changed("first")
    yield changed
    code._package_digest.cache_clear()


def test_a_resumed_run_is_refused_after_the_code_changed(ke, change):
    assert ke(*RUN, "--out", "done")[0] == 0
    change("second")
    status, _out, err = ke(*RUN, "--out", "done")
    assert status == 2
    assert "done holds another run: the code of ke-plugin-toys 0.1.0 changed (digest " in err
    assert "choose another folder with --out" in err
    change("first")
    assert ke(*RUN, "--out", "done")[0] == 0


def test_without_out_a_new_run_starts_and_names_the_one_that_is_not_resumed(ke, change, tmp_path):
    ke(*RUN)
    (old,) = (tmp_path / "runs").iterdir()
    change("second")
    status, _out, err = ke(*RUN)
    assert status == 0
    assert "starting a new run: the code of ke-plugin-toys 0.1.0 changed (digest " in err
    assert f"since runs/{old.name}" in err
    assert len([*(tmp_path / "runs").iterdir()]) == 2
    assert "starting a new run" not in ke(*RUN)[2]


def test_newer_code_judges_and_scores_a_run_and_is_recorded_with_the_scores(ke, change, tmp_path):
    ke(*RUN, "--out", "done")
    run, old = (tmp_path / "done" / "run.json").read_bytes(), RunFolder.open(tmp_path / "done").spec.editor.code
    change("second")
    assert ke("score", "done")[0] == 0
    scores = json.loads((tmp_path / "done" / "scores.json").read_bytes())
    assert scores["judge"]["code"] == old != scores["metrics"][0]["component"]["code"]
    assert ke("judge", "done")[0] == 0
    scores = json.loads((tmp_path / "done" / "scores.json").read_bytes())
    assert scores["judge"]["code"] == scores["metrics"][0]["component"]["code"] != old
    assert (tmp_path / "done" / "run.json").read_bytes() == run
    assert ke("report", "done")[0] == 0
