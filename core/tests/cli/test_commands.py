"""The commands around a run: look before it, report, judge and score after it."""

import json

import pytest

from ke_core.plugins.manager import Installed
from ke_core.results.folder import RunFolder
from ke_testing.fakes import EchoModel


def test_plugins_has_one_row_of_80_columns_for_each_plugin(ke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = ke("plugins")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.strip()]) == 2 + len(json.loads(ke("plugins", "--json")[1]))


def test_plugins_lists_components_and_reasons_of_broken_plugins(ke, plugins):
    plugins.installed["bad"] = Installed(
        name="bad", module="m", distribution="dist", version="1.2", broken="no [b]luck"
    )
    status, out, _err = ke("plugins")
    flat = " ".join(out.split())
    assert status == 0
    assert "editor sayer, other, surgeon" in flat
    assert "command datasets, demo, doctor, eval, plugins" in flat
    brings = next(each["brings"] for each in json.loads(ke("plugins", "--json")[1]) if each["name"] == "toys")
    assert brings["model source"] == ["echo"]
    assert "bad (dist) 1.2 broken" in flat
    assert "bad is broken: no [b]luck" in flat
    assert "ke-plugin-memit" not in flat


def test_plugins_prints_steps_for_authors_and_names_plugins_that_print(ke, plugins):
    plugins.installed["bad"] = Installed(name="bad", module="m", broken="no luck", step="mend [i]this[/i]")
    plugins.installed["loud"] = Installed(name="loud", module="m", printed="hello\n")
    flat = " ".join(ke("plugins")[1].split())
    assert "bad is broken: no luck for its author: mend [i]this[/i]" in flat
    assert "loud prints text while it is loaded; its author can remove that" in flat


def test_plugins_prints_the_time_of_slow_plugins(ke, plugins):
    plugins.installed["bad"] = Installed(name="bad", module="m", broken="no luck", seconds=30.04)
    plugins.installed["slow"] = Installed(name="slow", module="m", seconds=7.5)
    plugins.installed["quick"] = Installed(name="quick", module="m", seconds=0.5)
    flat = " ".join(ke("plugins")[1].split())
    assert "bad is broken: no luck (after 30.0 s)" in flat
    assert "takes 7.5 s to load" in flat
    assert "0.5 s" not in flat


def test_plugins_lists_disabled_plugins(ke, monkeypatch):
    monkeypatch.setenv("KE_DISABLE_PLUGINS", "x,y")
    out = ke("plugins")[1]
    assert "disabled by KE_DISABLE_PLUGINS: x, y" in out


def test_show_prints_options_with_type_default_help_citation_and_origin(ke):
    status, out, _err = ke("show", "sayer")
    flat = " ".join(out.split())
    assert status == 0
    assert "sayer: answers one word" in flat
    assert "editor, from toys" in flat
    assert "set with -o OPTION=VALUE" in flat
    assert "sayer.word Rome the answer (text)" in flat
    assert "sayer.loud false write it in capitals (true or false)" in flat
    assert "leaves the model unchanged" in flat
    assert "cite: Nobody 2026" in flat


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("editor", "surgeon", "changes the model's weights"),
        ("dataset", "toy", "styles: direct, cot"),
        ("metric", "accuracy", "columns: edits made, the rest"),
        ("judge", "exact", "no options"),
        ("model", "echo", "knows echo-1: echoes"),
    ],
)
def test_show_describes_every_kind(ke, kind, name, told):
    status, out, _err = ke("show", kind, name)
    assert (status, told in out) == (0, True)


def test_show_of_an_unknown_kind_lists_the_kinds(ke):
    status, _out, err = ke("show", "editr", "sayer")
    assert status == 2
    assert "'editr' is not one of 'editor', 'dataset', 'metric', 'judge', 'model'" in err


def test_datasets_list_names_judge_and_metrics(ke):
    out = " ".join(ke("datasets", "list")[1].split())
    assert "toy two cases exact accuracy toys" in out


def test_datasets_info_prints_license_source_and_checksum(ke):
    out = ke("datasets", "info", "toy")[1]
    assert "license  Apache-2.0\n" in out
    assert f"sha256   {'0' * 64}" in out


def test_datasets_stats_marks_differences_from_published_counts(ke, monkeypatch):
    from attrs import evolve

    from ke_testing.toy import Toy

    status, out, _err = ke("datasets", "stats", "toy")
    assert status == 0
    assert "cases" in out
    info = Toy().info()
    monkeypatch.setattr(Toy, "info", lambda self: evolve(info, published={"cases": 2, "edit mentions": 3000}))
    status, out, _err = ke("datasets", "stats", "toy")
    flat = " ".join(out.split())
    assert status == 1
    assert "cases 2 2 " in flat
    assert "3,000 differs" in flat
    assert "1 count differs from the published one" in flat


def test_datasets_sample_prints_edits_questions_and_right_answers(ke):
    status, out, _err = ke("datasets", "sample", "toy", "-n", "1", "--prompts")
    assert status == 0
    assert "case 1 (hops 2, edits 1)" in out
    assert "edit eiffel-tower-rome: Eiffel Tower is located in Rome  [was: Paris]" in out
    assert "-> Rome (also Roma); before the edit: Paris" in out
    assert "        Q: In which city is Eiffel Tower? A:" in out
    assert "case 2" not in out


def test_datasets_sample_samples_with_a_seed_or_prints_one_case(ke):
    drawn = ke("datasets", "sample", "toy", "-n", "9", "--seed", "1")[1]
    assert "case 1 " in drawn
    assert "case 2 " in drawn
    assert "case 1 " not in ke("datasets", "sample", "toy", "--case", "2")[1]
    status, _out, err = ke("datasets", "sample", "toy", "--case", "77")
    assert (status, err.splitlines()[0]) == (2, "error: toy has no case '77': `ke datasets sample toy` shows some")


def test_report_prints_several_runs_in_one_table(ke, evaluated):
    ke("eval", "--editor", "other", "--dataset", "toy", "--model", "echo:1", "--out", "two")
    status, out, _err = ke("report", "done", "two", "--full", "--short")
    assert status == 0
    assert "sayer" in out
    assert "other" in out
    assert "run folder: two" in out


def test_report_scores_a_run_without_scores(ke, evaluated):
    (evaluated / "scores.json").unlink()
    status, out, _err = ke("report", "done")
    assert (status, "50 (0-100)" in out) == (0, True)
    assert (evaluated / "scores.json").exists()


def test_report_without_a_run_is_a_one_line_error(ke, tmp_path):
    assert ke("report", "nowhere") == (2, "", "error: nowhere does not exist\nhint:  ke runs lists runs\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("x")
    assert ke("report", "empty", "note.txt")[2].endswith(
        "error: there is no run in empty, note.txt\nhint:  ke runs lists runs\n"
    )


def test_report_of_a_folder_skips_files_and_damaged_runs(ke, evaluated, tmp_path):
    (tmp_path / "sweep").mkdir()
    ke("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "--seed", "1", "--out", "sweep/two")
    evaluated.rename(tmp_path / "sweep" / "done")
    (tmp_path / "sweep" / "sweep.json").write_text('{"cells": []}')
    alone = ke("report", "sweep/done", "sweep/two", "--csv", "-")[1]
    assert len({row.split(",")[1] for row in alone.splitlines()[1:]}) == 2
    for given in (("sweep/done", "sweep/sweep.json", "sweep/two"), ("sweep",), ("sweep", "sweep/two")):
        status, out, _err = ke("report", *given, "--csv", "-")
        assert (status, out) == (0, alone)
    assert "skipped: sweep/sweep.json is a file" in ke("report", "sweep/done", "sweep/sweep.json")[2]
    (tmp_path / "sweep" / "two" / "run.json").write_text("{")
    status, _out, err = ke("report", "sweep")
    assert status == 0
    assert "skipped: sweep/two/run.json is cut off" in err
    assert ke("report", "sweep/two")[0] == 2


def test_report_of_damaged_scores_says_how_to_restore_them(ke, evaluated):
    (evaluated / "scores.json").write_text('{"schema": 1}')
    assert (
        ke("report", "done")[2] == "error: done/scores.json holds no scores\nhint:  delete it and run ke score done\n"
    )


def test_judge_and_score_need_no_model(ke, evaluated, monkeypatch):
    monkeypatch.setattr(EchoModel, "__init__", None)
    status, out, err = ke("judge", "done", "--judge", "exact")
    assert (status, "ke report done --full" in out) == (0, True)
    assert "every answer was judged already" in err
    (evaluated / "scores.json").unlink()
    status, out, _err = ke("score", "done", "--metric", "accuracy")
    assert (status, "50 (0-100)" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("judge", "done", "--judge", "exacd"), "no judge called 'exacd'"),
        (("judge", "done", "-o", "exact.x=1"), "exact has no option 'x'"),
        (("score", "done", "--metric", "accurcy"), "no metric called 'accurcy'"),
        (("score", "done", "--judge", "other"), "done has not been judged by 'other'"),
        (("judge", "nowhere"), "nowhere does not exist"),
    ],
)
def test_bad_input_after_the_run_is_a_one_line_error(ke, evaluated, arguments, error):
    before = (evaluated / "scores.json").read_bytes()
    status, out, err = ke(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {error}")
    assert before == (evaluated / "scores.json").read_bytes()


def test_runs_lists_progress_and_damaged_runs(ke, evaluated, tmp_path):
    ke("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "-o", "sayer.word=ctrl-c", "--out", "half")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    status, out, _err = ke("runs", ".")
    rows = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if line.strip()}
    assert status == 0
    assert f"done {RunFolder.open(evaluated).id[:8]} sayer toy 1 2/2 edits made 50.0 (2)" in rows["done"]
    assert "0/2 not scored" in rows["half"]
    assert rows["bad"] == "bad ? damaged"
    assert "bad: bad/run.json is cut off" in rows["bad:"]


def test_runs_of_an_empty_folder_is_a_one_line_error(ke, tmp_path):
    assert ke("runs")[2].startswith("error: there is no folder runs\nhint:  ")
    (tmp_path / "runs").mkdir()
    assert ke("runs")[2].startswith("error: there is no run in runs\nhint:  ")


def test_demo_names_everything_that_is_missing_in_one_pip_command(ke):
    status, _out, err = ke("demo")
    error, hint = err.splitlines()
    assert status == 2
    assert error == "error: the demo needs atlas, memit, input-aug, parrot, oracle, which are not installed"
    assert hint.startswith("hint:  pip install ke-plugin-atlas ke-plugin-memit ")


def test_demo_equals_eval_with_its_defaults(ke, tmp_path):
    chosen = ("--editor", "sayer", "--editor", "other", "--dataset", "toy", "--model", "echo:1", "--cases", "1")
    status, out, err = ke("demo", *chosen)
    folders = sorted((tmp_path / "runs" / "demo").iterdir())
    assert status == 0
    assert "unedited" in out
    assert [json.loads((folder / "run.json").read_text())["spec"]["plan"]["limit"] for folder in folders] == [1, 1]
    assert "sayer on 1 case of toy" in err


def test_directory_contains_all_components_of_the_demo():
    from ke_core.cli.demo import CHOSEN
    from ke_core.plugins.directory import directory_entries

    names = {(entry.kind, entry.name) for entry in directory_entries()}
    assert {("dataset", CHOSEN["dataset"]), *(("editor", name) for name in CHOSEN["editors"])} <= names
