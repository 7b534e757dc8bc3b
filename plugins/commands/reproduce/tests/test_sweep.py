"""``ke sweep`` and ``ke leaderboard``: planning, running, resuming and ranking."""

import json
from pathlib import Path

import pytest

from ke_core.app import Replied, RunFolder, read_catalog, runs_in, score_folder
from ke_testing.fakes import EchoModel

pytestmark = pytest.mark.integration

SWEEP = """
editors = ["sayer", "other"]
datasets = ["toy"]
models = ["echo:1"]
k = [1, "all"]

[vary.sayer]
word = ["Rome", "Madrid"]
"""
HEAD = 'editors = ["sayer"]\ndatasets = ["toy"]\nmodels = ["echo:1"]\n'


@pytest.fixture
def sweep(ke, tmp_path):
    """``sweep(text, *arguments)``: write the file and run ``ke sweep``."""

    def run(text=SWEEP, *arguments):
        (tmp_path / "words.toml").write_text(text)
        return ke("sweep", "words.toml", *arguments)

    return run


def specs(folder):
    return [found.spec for _path, found in runs_in(Path(folder))]


def test_every_combination_is_run_and_ranked(sweep):
    status, out, err = sweep()
    assert status == 0, err
    made = {(s.editor.name, s.editor.options["word"], s.plan.size) for s in specs("runs/words")}
    assert made == {("sayer", word, k) for word in ("Rome", "Madrid") for k in (1, None)} | {
        ("other", "Rome", k) for k in (1, None)
    }  # a default of other's: sayer's word is not its option
    assert "1/6 sayer k=1 word=Rome: -> runs/words/sayer-toy-echo-1-k1-seed0-wordRome-" in err
    assert "toy on 1: edits made, value in %" in out
    assert "sayer, all cases edited together, word=Madrid" in " ".join(out.split())
    assert "A rank such as 2-4" in out


def test_a_repeated_sweep_skips_finished_cells(sweep, monkeypatch):
    sweep()
    monkeypatch.setattr(EchoModel, "generate", None)
    status, out, err = sweep()
    assert status == 0
    assert err == "6 of 6 cells finished before\n"
    assert "toy on 1: edits made" in out


def test_a_failed_cell_is_reported_and_the_rest_is_ranked(sweep):
    text = HEAD.replace('["sayer"]', '["sayer", "surgeon"]')
    status, out, err = sweep(text)
    assert status == 1
    assert "surgeon failed: surgeon changes weights, and fake:echo has none here" in err
    assert "choose a model that is loaded locally" in err
    assert "failed: surgeon: surgeon changes weights" in " ".join(out.split())
    cells = json.loads(Path("runs/words/sweep.json").read_text())["cells"]
    assert [(cell["status"], bool(cell.get("error"))) for cell in cells] == [("done", False), ("failed", True)]


def test_a_cell_that_does_not_fit_its_dataset_is_reported_and_skipped(sweep):
    text = HEAD + 'protocol = "sample"\nk = [1, 9]\n'
    plan = sweep(text, "--dry-run")[1]
    assert "cannot be run: sayer k=9: 9 cases cannot be edited: there are 2" in " ".join(plan.split())
    assert "1 cannot be run, 1 to run" in plan
    status, _out, err = sweep(text)
    assert status == 1
    assert "k=9 failed: 9 cases cannot be edited" in err
    assert len(specs("runs/words")) == 1


def test_a_cell_whose_batch_is_larger_than_the_limit_is_reported_and_skipped(sweep):
    status, out, err = sweep(HEAD + "k = [1, 9]\nlimit = 2\n")
    assert status == 1
    assert "k=9 failed: 9 cases cannot be edited together: there are 2\n  use a smaller k, or k = " in err
    assert "9 cases edited together" not in out
    assert [one.plan.size for one in specs("runs/words")] == [1]


def test_ctrl_c_exits_with_130_and_the_same_command_resumes(sweep, ke, monkeypatch):
    calls = []
    whole = EchoModel.generate

    def interrupted(self, requests):
        calls.append(len(requests))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, requests)

    monkeypatch.setattr(EchoModel, "generate", interrupted)
    text = HEAD + 'seeds = [0, 1]\n\n[vary.sayer]\nword = ["", "Rome"]\n'
    status, _out, err = sweep(text)
    assert status == 130
    assert "To resume: ke sweep words.toml" in err
    monkeypatch.setattr(EchoModel, "generate", whole)
    status, _out, err = sweep(text)
    assert status == 0, err
    assert all(found.finished for _path, found in runs_in(Path("runs/words")))
    assert len(specs("runs/words")) == 4


def test_a_dry_run_counts_edits_and_questions_and_writes_nothing(sweep, tmp_path):
    status, out, _err = sweep(SWEEP, "--dry-run")
    assert status == 0
    assert not Path("runs").exists()
    rows = [line.split() for line in out.splitlines() if line.lstrip().startswith(("sayer", "other"))]
    assert [row[:2] for row in rows] == [
        *([["sayer", "k=1"]] * 2),
        *([["sayer", "k=all"]] * 2),
        ["other", "k=1"],
        ["other", "k=all"],
    ]
    counts = [row[-6:] for row in rows]
    assert [count[0] for count in counts] == ["2"] * 6
    assert int(counts[0][2]) > 0
    assert [count[2] for count in counts[1:]] == ["0"] * 5  # the unedited model's answers are shared
    assert [count[4:] for count in counts] == [["?", "?"]] * 6
    assert "6 cells: 0 finished, 0 cannot be run, 6 to run with 12 edits and 84 questions" in out
    assert "no time estimate: no earlier runs of these editors, datasets and models" in out


def test_a_dry_run_predicts_the_number_of_questions(sweep):
    out = sweep(HEAD, "--dry-run")[1]
    row = next(line.split() for line in out.splitlines() if line.lstrip().startswith("sayer"))
    sweep(HEAD)
    ((_path, folder),) = runs_in(Path("runs/words"))
    replied = [record for record in folder.read() if isinstance(record, Replied)]
    asked = [sum(len(one.replies) for one in replied if one.phase == phase) for phase in ("before", "after")]
    assert [int(row[-4]), int(row[-3])] == asked


def test_time_is_estimated_from_earlier_runs(sweep):
    sweep(HEAD)
    out = sweep(HEAD + "seeds = [0, 1]\n", "--dry-run")[1]
    assert "2 cells: 1 finished, 0 cannot be run, 1 to run" in out
    assert "estimated time from earlier runs: 0." in out
    assert "?" not in out


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        (HEAD + "seed = [1]\n", "words.toml: unknown key seed", "did you mean seeds?"),
        (HEAD + "zzz = 1\n", "words.toml: unknown key zzz", "keys: editors, datasets, models, k,"),
        (HEAD + "[model]\ndtyp = 'x'\n", "words.toml: unknown key model.dtyp", "did you mean model.dtype?"),
        (
            HEAD + "[model]\ndtype = 3\n",
            "words.toml: model.dtype: must be a text, not a whole number",
            "docs/sweeps.md",
        ),
        (HEAD + "[model]\nchat = 1\n", "words.toml: model.chat: must be true or false", "docs/sweeps.md"),
        ("editors = ['sayer']\nmodels = ['echo:1']\n", "words.toml: datasets: missing", "docs/sweeps.md"),
        (HEAD + "k = [0]\n", "words.toml: 'k' must be >= 1: 0", "docs/sweeps.md"),
        (HEAD + "k = [true]\n", "words.toml: k[0]: must be a whole number, not true or false", "docs/sweeps.md"),
        (HEAD + "k = []\n", "words.toml: k is empty", "docs/sweeps.md"),
        (HEAD + "seeds = [1, 1]\n", "words.toml: seeds contains a value twice", "docs/sweeps.md"),
        (HEAD + "seeds = [0, -1]\n", "words.toml: 'seeds' must be >= 0: -1", "docs/sweeps.md"),
        (HEAD + "seeds = ['a']\n", "words.toml: seeds[0]: must be a whole number, not a text", "docs/sweeps.md"),
        (HEAD + "limit = 'few'\n", "words.toml: limit: must be a whole number, not a text", "docs/sweeps.md"),
        (HEAD + "sequential = 1\n", "words.toml: sequential: must be true or false", "docs/sweeps.md"),
        (HEAD + "eval_every = 2\n", "words.toml: eval_every and eval_set need sequential = true", "docs/sweeps.md"),
        (
            HEAD + "sequential = true\neval_every = 'often'\n",
            "words.toml: eval_every: must be a whole number, not a text",
            "docs/sweeps.md",
        ),
        (HEAD + "protocol = 'part'\n", "words.toml: protocol: must be one of partition, sample", "docs/sweeps.md"),
        (HEAD + "protocol = 'sample'\n", 'words.toml: protocol = "sample" needs k', "k = [1, 100]"),
        (HEAD + "protocol = 'sample'\nk = 1\nsequential = true\n", "words.toml: sequential needs protocol", "docs/"),
        (HEAD + "judge = 3\n", "words.toml: judge: must be a text, not a whole number", "docs/sweeps.md"),
        (HEAD + "options = 3\n", "words.toml: options: must be an object, not a whole number", "docs/sweeps.md"),
        (HEAD + "[options.sayer]\nword = {a = 1}\n", "words.toml: options.sayer.word cannot be {'a': 1}", "a text,"),
        (HEAD + "[vary.sayer]\nword = 'x'\n", "words.toml: vary.sayer.word is not a list", "under options"),
        (
            HEAD + "[vary.sayer]\nword = ['x']\n[options.sayer]\nword = 'y'\n",
            "words.toml: sayer.word is set under vary and under options",
            "set it once",
        ),
        (HEAD + "[options.sayer]\nwrd = 'x'\n", "sayer has no option 'wrd'", "did you mean sayer.word?"),
        (HEAD + "[vary.sayer]\nloud = [true, 'maybe']\n", "sayer.loud cannot be 'maybe'", "true or false"),
        (HEAD + "[options.syer]\nword = 'x'\n", "option syer.word is for 'syer'", "did you mean sayer.word?"),
        (HEAD.replace("sayer", "sayr"), "no editor called 'sayr'", "did you mean 'sayer'?"),
        (HEAD.replace("toy", "toi"), "no dataset called 'toi'", "did you mean 'toy'?"),
        (HEAD.replace("echo:1", "ecko:1"), "no model called 'ecko'", "did you mean 'echo'?"),
        ("editors = [", "words.toml is not TOML", "docs/sweeps.md"),
    ],
)
def test_errors_in_the_file_are_one_line_and_run_nothing(sweep, text, error, hint):
    status, out, err = sweep(text)
    assert (status, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith(f"error: {error}")
    assert hint in second
    assert not Path("runs").exists()


def test_a_missing_file_is_a_one_line_error(ke):
    status, _out, err = ke("sweep", "nowhere.toml")
    assert status == 2
    assert err.startswith("error: cannot read nowhere.toml: no such file or directory")


def test_lists_and_flags_are_options_as_on_a_command_line(sweep):
    sweep(HEAD + "[options.sayer]\nloud = true\nword = [4, 5]\n")
    (spec,) = specs("runs/words")
    assert spec.editor.options == {"word": "4,5", "loud": True}


def test_leaderboard_lists_unfinished_and_damaged_runs(sweep, ke):
    sweep(HEAD + "seeds = [0, 1, 2]\n")
    first, second, _third = sorted(path for path, _found in runs_in(Path("runs/words")))
    (first / "scores.json").unlink()
    (second / "run.json").write_text("{")
    status, out, _err = ke("leaderboard", "runs/words")
    assert status == 0
    assert f"not finished: {first.name}" in out
    assert f"damaged: {second.name}:" in " ".join(out.split())


def test_leaderboard_ranks_by_the_chosen_score_as_json(sweep, ke):
    sweep(HEAD + '[vary.sayer]\nword = ["Rome", "Nowhere"]\n')
    status, out, _err = ke("leaderboard", "runs/words", "--by", "accuracy.efficacy", "--json")
    assert status == 0
    (table,) = json.loads(out)["tables"]
    assert (table["by"], table["dataset"], table["same_cases"]) == ("accuracy.efficacy", "toy", True)
    values = [place["value"] for place in table["places"]]
    assert values == sorted(values, reverse=True)
    assert table["places"][0]["name"] == "sayer, word=Rome"
    assert all(place["n"] for place in table["places"])
    assert {place["measure"] for place in table["places"]} == {"fraction"}
    assert all(0 <= value <= 1 for value in values)
    status, _out, err = ke("leaderboard", "runs/words", "--by", "beauty")
    assert status == 2
    assert err.startswith("error: no run has a score for beauty\nhint:  available: accuracy.efficacy, accuracy.other")


def test_leaderboard_of_a_folder_without_runs_is_a_one_line_error(ke):
    status, _out, err = ke("leaderboard", "nowhere")
    assert status == 2
    assert err.startswith("error: there is no finished run in nowhere\nhint:  ")


def test_models_with_equal_last_names_get_distinct_cells(sweep):
    text = HEAD.replace('["echo:1"]', '["echo:a/one", "echo:b/one"]')
    assert sweep(text)[0] == 0
    cells = json.loads(Path("runs/words/sweep.json").read_text())["cells"]
    assert len({cell["name"] for cell in cells}) == len({cell["folder"] for cell in cells}) == 2


def test_leaderboard_ranks_a_run_without_scores_after_ke_score(sweep, ke, plugins):
    sweep(HEAD + "seeds = [0, 1]\n")
    first, second = sorted(path for path, _found in runs_in(Path("runs/words")))
    for path in (first, second):
        (path / "scores.json").unlink()
    status, _out, err = ke("leaderboard", "runs/words")
    assert status == 2
    assert f"{first.name} has not been scored: ke score runs/words/{first.name}" in " ".join(err.split())
    score_folder(RunFolder.open(first), read_catalog(plugins))
    status, out, _err = ke("leaderboard", "runs/words", "--json")
    assert status == 0
    assert {place["run"] for place in json.loads(out)["tables"][0]["places"]} == {str(first)}
    assert json.loads(out)["not_finished"] == [second.name]


def test_leaderboard_does_not_rank_a_run_with_open_questions(sweep, ke, plugins):
    sweep(HEAD + "seeds = [0, 1]\n")
    first = min(path for path, _found in runs_in(Path("runs/words")))
    lines = (first / "records.jsonl").read_bytes().splitlines(keepends=True)
    after = [line for line in lines if b'"phase":"after"' in line]
    gone = json.loads(after[-1])["case"].encode()
    kept = [line for line in lines if line not in after or b'"case":"%s"' % gone not in line]
    (first / "records.jsonl").write_bytes(b"".join(kept))
    for name in ("scores.json", "records.seal.json"):
        (first / name).unlink()
    score_folder(RunFolder.open(first), read_catalog(plugins))
    status, out, _err = ke("leaderboard", "runs/words")
    assert status == 0
    assert f"not finished: {first.name}" in out
