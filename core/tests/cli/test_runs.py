"""``ke runs``: listing as ever, one run in full, and the removal of what came to nothing."""

from pathlib import Path

from ke_core.results.folder import RunFolder

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


def test_runs_and_runs_folder_list_as_runs_list_does(ke, evaluated):
    listed = ke("runs", "list", ".")
    assert listed[0] == 0
    assert " done " in listed[1]
    assert ke("runs", ".") == listed
    assert ke("runs")[2].startswith("error: there is no folder runs")
    assert "prune" in ke("runs", "--help")[1]
    assert "Remove the runs in a folder" in ke("runs", "prune", "--help")[1]


def test_show_says_what_was_asked_for_how_far_it_got_and_what_each_phase_took(ke, evaluated):
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


def test_show_says_why_a_run_ended_and_what_failed(ke):
    ke(*RUN, "-o", "sayer.word=boom", "--out", "here")
    status, out, _err = ke("runs", "show", "here")
    words = " ".join(out.split())
    assert status == 0
    assert "failed at 20" in words
    assert "failure: ZeroDivisionError: a bug" in words
    assert "ended by ZeroDivisionError" in words
    ke(*RUN, "-o", "sayer.word=fail", "--out", "there")
    assert "replies failed: 2 x ServerGone: no answer [red]at 0[/red]" in ke("runs", "show", "there")[1]


def test_show_says_that_a_run_was_interrupted(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "here")
    assert "interrupted at 20" in ke("runs", "show", "here")[1]
    RunFolder.open(Path("here")).log("start")
    assert "at work since 20" in ke("runs", "show", "here")[1]


def test_prune_lists_what_is_unfinished_or_damaged_and_removes_it_when_told(ke, evaluated):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    ke(*RUN, "--out", "broken")
    Path("broken/run.json").write_text("{")
    status, out, err = ke("runs", "prune", ".")
    words = " ".join(out.split())
    assert status == 0
    assert "begun unfinished: 1 edits made, 0 cases asked after them" in words
    assert "broken damaged: broken/run.json is not JSON" in words
    assert "done" not in words
    assert err == "2 runs would go: ke runs prune . --yes\n"
    assert Path("begun/run.json").exists()
    assert ke("runs", "prune", ".", "--yes")[0] == 0
    assert not Path("begun").exists()
    assert not Path("broken").exists()
    assert (evaluated / "run.json").exists()
    assert "nothing to remove: every run in . is finished" in ke("runs", "prune", ".")[2]


def test_prune_removes_a_finished_run_only_if_it_is_named(ke, evaluated):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    assert ke("runs", "prune", "--run", "done", "--yes")[0] == 0
    assert not evaluated.exists()
    assert Path("begun").exists()
    status, _out, err = ke("runs", "prune", "--run", "cache", "--yes")
    assert status == 2
    assert err.startswith("error: cache is not a run folder")


def test_prune_leaves_the_files_that_ke_has_not_written(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    Path("begun/notes.txt").write_text("mine")
    ke("runs", "prune", ".", "--yes")
    assert [path.name for path in Path("begun").iterdir()] == ["notes.txt"]


def test_prune_leaves_a_run_that_a_process_is_writing_to(ke):
    ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "begun")
    with RunFolder.open(Path("begun")).writing():
        out = ke("runs", "prune", ".", "--yes")[1]
    assert "(left: in use)" in out
    assert Path("begun/run.json").exists()


def test_a_scored_run_without_a_log_counts_as_finished(ke, evaluated):
    (evaluated / "log.jsonl").unlink()
    assert "nothing to remove" in ke("runs", "prune", ".")[2]
    assert "without a log" in ke("runs", "show", "done")[1]
