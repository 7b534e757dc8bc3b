"""The whole way: ``ke eval`` runs, records, reports; and every mistake costs one clear line."""

import re

import pytest

from ke_core.results.folder import RunFolder
from ke_testing.fakes import EchoModel

RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


def only_run(folder):
    (found,) = folder.iterdir()
    return found


def test_a_run_prints_its_table_and_where_it_is(ke, tmp_path):
    status, out, err = ke(*RUN)
    folder = only_run(tmp_path / "runs")
    assert status == 0
    assert folder.name == f"sayer-toy-{RunFolder.open(folder).id[:8]}"
    assert (
        "sayer on 2 cases of toy (partition, each case edited alone, prompts direct, cot, with 1) "
        f"-> runs/{folder.name}\n" in err
    )
    assert "toy on 1: value in %, 95% interval" in out
    assert re.search(r"sayer +direct +50 \(0-100\) ", out)
    assert "\nsayer: 50.0% (n 2) edits made" in out
    assert out.endswith(
        f"Next:\n  ke report runs/{folder.name} --full\n  ke report runs/{folder.name} --html report.html\n"
    )


def test_full_prints_the_settings_and_the_run_folder(ke, tmp_path):
    status, out, _err = ke(*RUN, "--full")
    assert status == 0
    assert re.search(r"edits .*\n.* made", out)
    assert re.search(r"sayer +direct +50\.0 ", out)
    assert "judge: exact" in out
    assert f"run folder: runs/{only_run(tmp_path / 'runs').name}" in out
    assert "Next:" not in out


def test_each_phase_is_shown_on_standard_error(ke):
    err = ke(*RUN)[2]
    for phase in ("loading the model", "asking the unedited model: 0/2", "cases edited and asked: 0/2", "judging"):
        assert phase in err


def test_a_finished_run_started_again_asks_nothing(ke, monkeypatch):
    ke(*RUN)
    monkeypatch.setattr(EchoModel, "generate", None)
    status, out, err = ke(*RUN, "-o", "sayer.word=Rome")
    assert status == 0
    assert "-> runs/" in err
    assert ", finished before\n" in err
    assert "50 (0-100)" in out


def test_several_editors_share_a_table_and_have_a_folder_each(ke, tmp_path):
    status, out, _err = ke(
        *RUN, "--editor", "other", "-o", "other.word=Madrid", "-o", "sayer.loud=true", "--out", "both", "--full"
    )
    assert status == 0
    folders = [RunFolder.open(path).spec.editor for path in sorted((tmp_path / "both").iterdir())]
    assert [(editor.name, editor.options) for editor in folders] == [
        ("other", {"word": "Madrid", "loud": False}),
        ("sayer", {"word": "Rome", "loud": True}),
    ]
    assert [line.split()[0] for line in out.splitlines() if line.split()].count("unedited") == 1
    assert "sayer: sayer (word=Rome, loud=true)\n" in out
    assert "other: other (word=Madrid, loud=false)\n" in out


def test_failed_replies_are_counted_and_end_with_status_1(ke):
    status, out, _err = ke(*RUN, "-o", "sayer.word=fail")
    assert status == 1
    assert "warning: 12 failed replies, counted as wrong (sayer 12): ServerGone: no answer" in out
    _status, out, _err = ke(*RUN, "-o", "sayer.word=fail", "--full")
    assert "12 failed replies, counted as wrong:" in out
    assert "ServerGone: no answer [red]at 0 to 3[/red]" in out


def test_the_plan_and_the_form_are_taken_from_the_options(ke, tmp_path):
    chosen = ("--protocol", "sample", "--num-edited", "1", "--seed", "7", "--style", "direct", "--edited-form", "cloze")
    status, _out, _err = ke(*RUN, *chosen, "--out", "here")
    spec = RunFolder.open(tmp_path / "here").spec
    assert status == 0
    assert (spec.plan.protocol, spec.plan.size, spec.seed, spec.styles, spec.edited_form) == (
        "sample", 1, 7, ("direct",), "cloze",
    )  # fmt: skip


def test_sequential_plan_follows_the_options_and_shows_the_edits_made(ke, tmp_path):
    status, out, err = ke(*RUN, "--sequential", "--eval-every", "1", "--eval-set", "all", "--out", "here", "--full")
    plan = RunFolder.open(tmp_path / "here").spec.plan
    assert status == 0
    assert (plan.size, plan.sequential, plan.eval_every, plan.eval_set) == (1, True, 1, "all")
    assert "all cases asked after each batch" in err
    assert "by edits made, after editing: value in % (n)" in out
    assert ke(*RUN, "--sequential", "--eval-every", "end", "--out", "end")[0] == 0
    plan = RunFolder.open(tmp_path / "end").spec.plan
    assert (plan.sequential, plan.eval_every, plan.eval_set) == (True, None, "seen")


def test_batch_all_is_one_group(ke, tmp_path):
    ke(*RUN, "--batch", "all", "--out", "here")
    assert RunFolder.open(tmp_path / "here").spec.plan.size is None


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--dataset", "my.json"], "no dataset called 'my.json'", "--dataset cases -o cases.file=my.json"),
        (["--editor", "sayr"], "no editor called 'sayr'", "did you mean 'sayer'?"),
        (["--dataset", "mquake-cf-3k"], "no dataset called 'mquake-cf-3k'", "pip install ke-plugin-mquake"),
        (["--judge", "exacd"], "no judge called 'exacd'", "did you mean 'exact'?"),
        (["--metric", "accurcy"], "no metric called 'accurcy'", "did you mean 'accuracy'?"),
        (["--model", "nowhere:gpt"], "no model called 'nowhere'", "installed models: echo, hf"),
        (["--style", "sung"], "dataset toy has no style 'sung'", "one of: direct, cot"),
        (["-o", "sayer.wrd=x"], "sayer has no option 'wrd'", "did you mean sayer.word?"),
        (["-o", "sayer.loud=maybe"], "sayer.loud cannot be 'maybe'", "true or false"),
        (["-o", "syer.word=x"], "option syer.word is for 'syer', which this run does not", "did you mean sayer.word?"),
        (["-o", "word=x"], "bad option 'word=x'", "write it as -o component.option=value"),
        (["-o", "toy.mask=true"], "toy hides edits from some cases, and sayer cannot", "choose an editor that can"),
        (["--data-dir", "."], "dataset toy takes no --data-dir", "ke show toy"),
        (["--num-edited", "3"], "--num-edited belongs to --protocol sample", "ke eval --help"),
        (["--protocol", "sample"], "--protocol sample needs --num-edited K", "ke eval --help"),
        (["--protocol", "sample", "--num-edited", "1", "--batch", "2"], "--batch belongs to --protocol pa", "--help"),
        (["--protocol", "sample", "--num-edited", "9"], "9 cases cannot be edited: there are 2",
         "use a smaller --num-edited"),
        (["--eval-every", "1"], "--eval-every belongs to --sequential", "ke eval --help"),
        (["--eval-every", "end"], "--eval-every belongs to --sequential", "ke eval --help"),
        (["--eval-set", "seen"], "--eval-set belongs to --sequential", "ke eval --help"),
        (["--eval-every", "2", "--eval-set", "all"], "--eval-every belongs to --sequential", "ke eval --help"),
        (["--sequential", "--protocol", "sample", "--num-edited", "1"],
         "--sequential edits the batches of --protocol pa", "ke eval --help"),
        (["--sequential", "--eval-every", "0"],
         "invalid value for '--eval-every': '0' is neither a number from 1 nor end", "ke eval --help"),
        (["--sequential", "--eval-every", "often"],
         "invalid value for '--eval-every': 'often' is neither a number from 1 nor end", "ke eval --help"),
        (["--sequential", "--eval-set", "old"], "invalid value for '--eval-set'", "ke eval --help"),
        (["--batch", "0"], "invalid value for '--batch' / '--edits-per-batch': '0' is neither a number from 1 nor all",
         "ke eval --help"),
        (["--limitt", "3"], "no such option '--limitt'", "did you mean '--limit' or '--eval-limit'?"),
        (["--model", "echo:1@a", "--revision", "b"], "the revision is given twice", "ke eval --help"),
        (["--editor", "sayer", "--editor", "sayer"], "--editor sayer is given twice", "ke eval --help"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line_and_status_2(ke, tmp_path, arguments, error, hint):
    base = list(RUN)
    if arguments[0] in ("--editor", "--dataset", "--model") and len(arguments) in (2, 4):
        at = base.index(arguments[0])
        del base[at : at + 2]
    status, out, err = ke(*base, *arguments)
    assert (status, out) == (2, "")
    first, second = err.removeprefix("loading the model\n").splitlines()
    assert first.startswith(f"error: {error}")
    assert second.startswith("hint:  ")
    assert hint in second
    assert not (tmp_path / "runs").exists()


def test_weight_editor_without_weights_is_refused_before_the_first_request(ke, tmp_path):
    status, _out, err = ke(*RUN, "--editor", "surgeon")
    assert status == 2
    assert "error: surgeon changes weights, and fake:echo has none here\nhint:  choose a model" in err
    assert not (tmp_path / "runs").exists()


def test_missing_editor_error_lists_editors_and_the_install_command(ke):
    status, _out, err = ke("eval", "--dataset", "toy")
    assert status == 2
    assert err.startswith("error: no editor is given: add --editor NAME\n  installed: other, sayer, surgeon\n")
    assert "  pip install ke-plugin-memit  installs memit\n" in err


def test_missing_dataset_error_lists_datasets_and_the_install_command(ke):
    status, _out, err = ke("eval", "--editor", "sayer")
    assert status == 2
    assert "no dataset is given: add --dataset NAME\n  installed: toy\n" in err
    assert "  pip install ke-plugin-mquake  installs mquake, mquake-atlas, mquake-cf-3k, " in err


def test_a_folder_of_another_run_is_left_as_it_is(ke, evaluated):
    before = {path.name: path.read_bytes() for path in evaluated.iterdir()}
    status, _out, err = ke(*RUN, "--seed", "1", "--out", "done")
    assert status == 2
    assert "\nerror: done holds another run: seed 0 (here 1)\nhint:  choose another folder" in err
    assert before == {path.name: path.read_bytes() for path in evaluated.iterdir()}


def test_ctrl_c_ends_with_130_and_names_the_command_that_resumes_the_run(ke, tmp_path, monkeypatch):
    status, _out, err = ke(*RUN, "-o", "sayer.word=ctrl-c", "--out", "a folder")
    assert status == 130
    command = " ".join(("ke", *RUN, "-o", "sayer.word=ctrl-c", "--out", "'a folder'"))
    assert err.endswith(f"Interrupted. Progress is saved. To resume: {command}\n")
    assert "Traceback" not in err
    assert (tmp_path / "a folder" / "records.jsonl").stat().st_size > 0


def test_full_disk_is_a_one_line_error_and_written_records_stay_complete(ke, tmp_path, monkeypatch):
    import errno
    import os

    import ke_core.results.writer as module

    class Full:
        def __getattr__(self, name):
            return getattr(os, name)

        def fsync(self, descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "os", Full())
    status, _out, err = ke(*RUN, "--out", "here")
    assert status == 2
    error, hint = [line for line in err.splitlines() if line.startswith(("error:", "hint:"))]
    assert error == "error: cannot write here/records.jsonl: no space left on device"
    assert "free some space" in hint
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    assert ke(*RUN, "--out", "here")[0] == 0


def test_a_bug_in_an_editor_is_not_hidden(ke):
    status, _out, err = ke(*RUN, "-o", "sayer.word=boom")
    assert status == 1
    assert "Traceback (most recent call last)" in err
    assert "error: ZeroDivisionError: a bug\nhint:  this is a bug in ke or in a plugin" in err
