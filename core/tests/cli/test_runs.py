"""``ke runs``: the list of runs."""

import json
import shutil
from pathlib import Path

from ke_core.results.folder import SCORES
from ke_testing.cli_fixtures import toys


def test_runs_and_runs_folder_equal_runs_list(ke, evaluated):
    listed = ke("runs", "list", ".")
    assert listed[0] == 0
    assert " done " in listed[1]
    assert ke("runs", ".") == listed
    assert ke("runs")[2].startswith("error: there is no folder runs")


def test_help_names_the_plugin_for_runs_show_and_prune(ke):
    assert "pip install ke-plugin-analysis" in " ".join(ke("runs", "--help")[1].split())


def test_runs_as_json_have_scores_counts_and_phases(ke, evaluated):
    shutil.copytree("done", "harmed")
    Path("harmed", SCORES).write_bytes(b"[3]")
    done, harmed = json.loads(ke("runs", ".", "--json")[1])
    assert [done["run"], harmed["run"]] == ["done", "harmed"]
    assert done["scores"]
    assert not harmed["scores"]
    assert done["counts"]["done"] == harmed["counts"]["done"] == 2
    assert {"judging", "scoring"} <= {phase["phase"] for phase in done["phases"]}


def test_full_without_a_plugin_prints_the_short_report_and_a_pip_command(ke, evaluated):
    status, out, err = ke("report", "done", "--full", plugins=toys())
    assert status == 0
    assert out == ke("report", "done", plugins=toys())[1]
    assert err.splitlines() == ["no plugin for --full is installed: pip install ke-plugin-analysis"]
