"""``ke runs show`` and ``ke runs prune``."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ke_core.results.folder import PART, RECORDS, SCORES, RunFolder
from ke_core.results.index import Index
from ke_core.results.seal import SEAL
from ke_core.results.writer import open_writer
from ke_core.runner import evaluate as evaluation
from ke_plugin_analysis.pruning import removable

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


def test_the_commands_are_listed_in_the_help_of_ke_runs(ke):
    assert "prune" in ke("runs", "--help")[1]
    assert "Delete the unfinished and damaged runs" in ke("runs", "prune", "--help")[1]


def test_show_prints_settings_progress_and_phases(ke, evaluated):
    status, out, err = ke("runs", "show", "done")
    assert status == 0, err
    words = " ".join(out.split())
    assert RunFolder.open(evaluated).id in out.replace("\n", "").replace(" ", "")
    assert "partition, each case edited alone, seed 0" in words
    assert "finished: 2/2 cases, 2 edits, 12 answers" in words
    assert "judged by exact, scored" in words
    for name in ("reading the dataset", "loading the model", "unedited model", "edited model", "judging", "scoring"):
        assert name in words
    assert "GiB" in words
    assert "toy on 1: value in %" in words


def test_show_reads_the_records_once(ke, evaluated, monkeypatch):
    read = Counter()

    def counting(name, of):
        return lambda of_what, **given: (read.update([name]), of(of_what, **given))[1]

    monkeypatch.setattr(RunFolder, "scores", counting("scores", RunFolder.scores))
    monkeypatch.setattr(Index, "of", counting("records", Index.of))
    for words in (("runs", "show", "done"), ("report", "done")):
        read.clear()
        assert ke(*words)[0] == 0
        assert read == {"scores": 1, "records": 1}


def test_show_prints_the_end_of_a_run_and_its_failures(ke):
    ke(*RUN, "-o", "sayer.word=boom", "--out", "here")
    status, out, _err = ke("runs", "show", "here")
    words = " ".join(out.split())
    assert status == 0
    assert "failed at 20" in words
    assert "failure: ZeroDivisionError: a bug" in words
    assert "ended by ZeroDivisionError" in words
    ke(*RUN, "-o", "sayer.word=fail", "--out", "there")
    assert "replies failed: 6 x ServerGone: no answer [red]at 0[/red]" in ke("runs", "show", "there")[1]


def test_show_prints_that_a_run_was_interrupted(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "here")
    assert "interrupted at 20" in ke("runs", "show", "here")[1]
    RunFolder.open(Path("here")).log("start")
    assert "running since 20" in ke("runs", "show", "here")[1]


def test_show_tells_a_run_that_was_not_started_from_one_without_a_log(ke, evaluated):
    for name in ("scores.json", "records.seal.json", "log.jsonl"):
        (evaluated / name).unlink()
    out = ke("runs", "show", "done")[1]
    assert "without a log: 2" in out
    assert "to resume: start the same command again" in out
    (evaluated / RECORDS).unlink()
    assert "not started: 0" in ke("runs", "show", "done")[1]


def test_show_of_a_folder_with_runs_lists_them(ke, evaluated):
    status, _out, err = ke("runs", "show", ".")
    assert status == 2
    assert err == "error: . is not a run folder: it contains 1 run\nhint:  show one of them: done\n"


def test_prune_lists_unfinished_and_damaged_runs_and_deletes_with_yes(ke, evaluated):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    ke(*RUN, "--out", "broken")
    with Path("broken/records.jsonl").open("a") as stream:
        stream.write("{\n{}\n")
    Path("broken/records.seal.json").unlink()
    Path("broken/scores.json").unlink()
    status, out, err = ke("runs", "prune", ".")
    words = " ".join(out.split())
    assert status == 0
    assert "begun unfinished: 1 edits applied, 0 cases evaluated" in words
    assert "broken damaged: broken/records.jsonl, line " in words
    assert "done" not in words
    assert err == "to delete 2 runs: ke runs prune . --yes\n"
    assert Path("begun/run.json").exists()
    assert ke("runs", "prune", ".", "--yes")[0] == 0
    assert not Path("begun").exists()
    assert not Path("broken").exists()
    assert (evaluated / "run.json").exists()
    assert "nothing to delete: . has no unfinished run" in ke("runs", "prune", ".")[2]


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: {"lr": 0.1},
        lambda raw: {**raw, "spec": {**raw["spec"], "schema": 2}},
        lambda raw: {**raw, "id": "0"},
    ],
)
def test_prune_keeps_a_run_that_cannot_be_read(ke, evaluated, change):
    file = evaluated / "run.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    there = sorted(evaluated.iterdir())
    assert ke("runs", "prune", ".", "--yes")[0] == 0
    assert sorted(evaluated.iterdir()) == there


def test_prune_keeps_foreign_files(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    Path("begun/notes.txt").write_text("mine")
    ke("runs", "prune", ".", "--yes")
    assert [path.name for path in Path("begun").iterdir()] == ["notes.txt"]


def test_prune_keeps_a_run_in_use(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    with RunFolder.open(Path("begun")).writing():
        out = ke("runs", "prune", ".", "--yes")[1]
    assert "(kept: in use)" in out
    assert Path("begun/run.json").exists()


def test_a_scored_run_without_a_log_counts_as_finished(ke, evaluated):
    (evaluated / "log.jsonl").unlink()
    assert "nothing to delete" in ke("runs", "prune", ".")[2]
    assert "finished: 2/2 cases" in " ".join(ke("runs", "show", "done")[1].split())


def test_a_finished_run_stays_finished_despite_its_log(ke, evaluated):
    before = (evaluated / "log.jsonl").read_bytes()
    with RunFolder.open(evaluated).writing():
        status, _out, err = ke(*RUN, "--out", "done")
    assert status == 2
    assert err.splitlines()[-2] == "error: another process is writing to done"
    assert (evaluated / "log.jsonl").read_bytes() == before  # it did not get as far as working on the run
    RunFolder.open(evaluated).log("end", ended="failed")
    assert "nothing to delete" in ke("runs", "prune", ".", "--yes")[2]
    assert "finished: 2/2 cases" in " ".join(ke("runs", "show", "done")[1].split())


@pytest.mark.parametrize("step", ["judge_run", "score_run"])
def test_prune_does_not_list_a_run_that_is_being_judged_or_scored(ke, monkeypatch, step):
    whole, said = getattr(evaluation, step), []

    def pruned(*given, **how):
        said.extend((one.why, one.remove()) for one in removable(Path()))
        return whole(*given, **how)

    monkeypatch.setattr(evaluation, step, pruned)
    assert ke(*RUN, "--out", "done")[0] == 0
    assert said == []


def test_prune_keeps_a_run_that_finished_after_listing(ke, evaluated):
    for name in (SCORES, SEAL):
        (evaluated / name).unlink()
    (listed,) = removable(Path())
    assert ke(*RUN, "--out", "done")[0] == 0
    assert listed.remove() == "finished meanwhile"
    assert RunFolder.open(evaluated).finished


def test_scores_of_part_of_a_run_do_not_finish_it(ke, evaluated):
    whole = (evaluated / RECORDS).read_bytes().splitlines(keepends=True)
    for name in (SCORES, SEAL):
        (evaluated / name).unlink()
    (evaluated / RECORDS).write_bytes(
        b"".join(line for line in whole if b'"judged"' not in line and b'"2"' not in line)
    )
    assert ke("judge", "done")[0] == 0
    assert RunFolder.open(evaluated).scores()
    assert "done unfinished: " in " ".join(ke("runs", "prune", ".")[1].split())
    assert ke(*RUN, "--out", "done")[0] == 0
    assert "nothing to delete" in ke("runs", "prune", ".")[2]
    assert ke("score", "done")[0] == 0
    assert RunFolder.open(evaluated).finished


def test_prune_and_show_read_the_records_of_several_processes(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    part = Path("begun", PART.format(rank=1))
    Path("begun", RECORDS).rename(part)
    lines = len(part.read_bytes().splitlines())
    assert f"{lines} lines in records.part-*.jsonl are not merged yet" in ke("runs", "show", "begun")[1]
    (found,) = removable(Path())
    assert found.why == "unfinished: 1 edits applied, 0 cases evaluated"
    assert found.size == sum(file.stat().st_size for file in Path("begun").iterdir())
    with open_writer(part):
        assert found.remove() == "in use"
    assert found.remove() == ""
    assert not Path("begun").exists()


HOSTILE = [b"[" * 100_000, b"\xff", b'{"id": ["\\ud800"]}', b"", b"[3]", b'{"kind": 3}\n{}\n']


@pytest.mark.parametrize("file", ["run.json", RECORDS, SEAL, SCORES, "log.jsonl"])
@pytest.mark.parametrize("content", HOSTILE, ids=["nested", "bytes", "surrogate", "empty", "list", "lines"])
def test_a_damaged_run_does_not_stop_list_or_prune(ke, evaluated, file, content):
    shutil.copytree("done", "harmed")
    (Path("harmed") / file).write_bytes(content)
    status, out, err = ke("runs", ".")
    assert status == 0, err
    assert "done" in out
    assert "harmed" in out
    assert file == "log.jsonl" or (file == RECORDS and not content) or "damaged" in out
    assert ke("runs", "prune", ".")[0] == 0
    for words in (("runs", "show", "harmed"), ("report", "harmed"), ("report", "done", "harmed"), ("leaderboard", ".")):
        status, out, err = ke(*words)
        assert status in (0, 2), err
        assert "Traceback" not in out + err
    assert Path("done").exists()
