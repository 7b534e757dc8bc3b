"""``ke reproduce``: a published table is run, and each number is compared with the published one."""

import json

import pytest
from attrs import evolve

from ke_benchmarks import ReproductionSpec
from ke_core.app import EvalRequest, ModelChoice
from ke_core.plugin import hookimpl
from ke_plugin_reproduce.requests import RequiredRun
from ke_plugin_reproduce.running import cell

pytestmark = pytest.mark.integration

TABLE = """
paper = "Somebody 2020, Table 1"
title = "who says Rome"
labels = ["Base model", "Method"]

[set]
dataset = "toy"

[pick]
metric = "accuracy"

[models.Small]
ids = ["echo:small"]

[models.Large]
ids = ["echo:large"]

[models.Old]
gone = "switched off in 2021"

[[columns]]
heading = "edits made"
pick = { aspect = "efficacy", style = "direct" }

[[columns]]
heading = "k = 100"
set = { batch = 100 }
parts = [{ aspect = "efficacy", style = "direct" }, { aspect = "other", style = "cot" }]

[[rows]]
labels = ["Small", "Rome"]
model = "Small"
set = { editor = "sayer" }
printed = [50.0, [99.0, "<1"]]

[[rows]]
labels = ["Large", "Rome"]
model = "Large"
set = { editor = "sayer" }
printed = [49.9, "OOM"]

[[rows]]
labels = ["Large", "Cairo"]
model = "Large"
set = { editor = "sayer", options = { "sayer.word" = "Cairo" } }
note = "another word"
printed = ["-", "-"]

[[rows]]
labels = ["Old", "Rome"]
model = "Old"
set = { editor = "sayer" }
printed = [1.0, [1.0, 2.0]]

[[rows]]
labels = ["Small", "both"]
model = "Small"
over = [{ editor = "sayer" }, { editor = "other", options = { "other.word" = "Cairo" } }]
printed = [25.0, [25.0, 0.0]]

[[rows]]
labels = ["Small", "unsaid"]
model = "Small"
unclear = "the paper does not say how"
printed = [25.0, "-"]
"""
COUNTS = """
paper = "Somebody 2020, Table 2"
title = "how much there is"
labels = ["Count"]

[set]
dataset = "toy"

[[columns]]
heading = "toy"

[[rows]]
labels = ["cases"]
pick = { source = "statistics", aspect = "cases" }
printed = [2]

[[rows]]
labels = ["contaminated"]
set = { edited = 1 }
pick = { source = "audit", aspect = "edited cases" }
printed = [7]
"""
MODEL = ("--model", "echo:1")


class Papers:
    @hookimpl(optionalhook=True)
    def ke_reproductions(self):
        return [
            ReproductionSpec(name="toy/table-10", text=lambda: COUNTS),
            ReproductionSpec(name="toy/table-2", text=lambda: COUNTS),
            ReproductionSpec(name="toy/table-1", text=lambda: TABLE),
        ]


@pytest.fixture
def plugins(plugins):
    plugins.register(Papers(), "papers")
    return plugins


@pytest.fixture
def table(ke, tmp_path):
    """The rows of table 1, run with a model that is not in the paper."""
    status, out, err = ke("reproduce", "toy/table-1", *MODEL, "--limit", "2")
    assert status == 0, err
    raw = json.loads((tmp_path / "runs/reproduce/toy/table-1.json").read_text())
    cells = {" ".join(row["labels"]): [cell["parts"] for cell in row["cells"]] for row in raw["rows"]}
    return out, cells


def test_the_list_is_sorted_by_table_number(ke):
    status, out, _err = ke("reproduce", "list")
    names = [line.split()[0] for line in out.splitlines() if line.strip().startswith("toy/")]
    assert (status, names) == (0, ["toy/table-1", "toy/table-2", "toy/table-10"])
    assert "who says Rome" in out
    assert "Somebody 2020, Table 1" in out


def test_each_number_is_next_to_the_published_one(table):
    _out, cells = table
    ((part,), _parts) = cells["Small Rome"]
    assert (part["value"], part["n"], part["printed"], part["difference"]) == (50.0, 2, 50.0, 0.0)
    assert part["status"] == "matches"
    assert part["notes"] == ["echo:1 in place of Small"]


def test_every_number_has_n(table):
    _out, cells = table
    parts = [part for row in cells.values() for cell in row for part in cell]
    assert all(part["n"] or part["status"] == "not runnable" for part in parts)


def test_a_number_outside_the_interval_differs_and_one_below_a_bound_matches(table):
    _out, cells = table
    first, second = cells["Small Rome"][1]
    assert (first["value"], first["printed"], first["status"]) == (50.0, 99.0, "differs")  # one batch: no interval
    assert (second["value"], second["printed"], second["status"]) == (0.0, "<1", "matches")
    assert cells["Old Rome"][0][0]["status"] == "not runnable"


def test_missing_runs_have_a_reason(table):
    out, cells = table
    assert cells["Old Rome"][0][0]["why"] == "Old: switched off in 2021"
    assert cells["Small unsaid"][0][0]["why"] == "the paper does not say how"
    assert "Old: switched off in 2021" in out
    assert "not runnable" in out


def test_published_words_are_shown_but_not_compared(table):
    out, cells = table
    first, second = cells["Large Rome"][1]
    assert [first["status"], second["status"]] == ["nothing printed"] * 2
    assert "paper OOM" in out


def test_a_cell_over_several_runs_is_their_mean(table):
    _out, cells = table
    ((part,), _parts) = cells["Small both"]
    assert (part["value"], part["n"], part["status"]) == (25.0, 4, "matches")
    assert "mean of 2 runs, no interval" in part["notes"]


def test_notes_say_what_differs_from_the_paper(table):
    out, cells = table
    assert "k = 2, not 100" in cells["Large Cairo"][1][0]["notes"]
    assert "another word" in cells["Large Cairo"][1][0]["notes"]
    assert "echo:1 in place of Large" in out
    assert "at most 2 cases of each dataset, sampled with the seed" in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_a_second_start_runs_nothing(ke, table):
    status, _out, err = ke("reproduce", "toy/table-1", *MODEL, "--limit", "2")
    assert status == 0
    assert err.count("  finished before") == 6
    assert "done in" not in err


def test_a_start_with_other_loading_settings_runs_nothing(ke, table):
    status, _out, err = ke("reproduce", "toy/table-1", *MODEL, "--limit", "2", "--device", "cpu", "--timeout", "9")
    assert status == 0
    assert err.count("  finished before") == 6
    assert "done in" not in err


def test_the_folder_of_a_run_does_not_depend_on_the_data_directory(tmp_path):
    request = EvalRequest(editor="sayer", dataset="toy", model=ModelChoice(reference="echo:1"))
    needs = [RequiredRun(request=evolve(request, data_dir=where)) for where in ("data", "./data/")]
    first, second = (cell(need, tmp_path).folder for need in needs)
    assert first == second
    assert cell(RequiredRun(request=request, judge="llm"), tmp_path).folder != first


def test_several_models_replace_those_of_the_paper_in_order(ke, tmp_path):
    ke("reproduce", "toy/table-1", "--model", "echo:7", "--model", "echo:8", "--limit", "2")
    raw = json.loads((tmp_path / "runs/reproduce/toy/table-1.json").read_text())
    notes = [row["cells"][0]["parts"][0]["notes"] for row in raw["rows"]]
    assert notes[0][0] == "echo:7 in place of Small"
    assert notes[1][0] == "echo:8 in place of Large"


def test_a_model_of_the_paper_is_used_only_for_itself(ke, tmp_path):
    ke("reproduce", "toy/table-1", "--model", "echo:large")
    raw = json.loads((tmp_path / "runs/reproduce/toy/table-1.json").read_text())
    small, large = (row["cells"][0]["parts"][0] for row in raw["rows"][:2])
    assert small["why"] == "no --model for Small (echo:small)"
    assert (large["status"], large["notes"]) == ("matches", [])


def test_counts_of_a_dataset_need_no_model(ke, tmp_path):
    status, out, _err = ke("reproduce", "toy/table-2", "--model", "gone:1")
    assert status == 0
    assert "+0.0 matches" in out
    assert "differs" in out


def test_tables_of_counts_have_no_notes_about_runs(ke):
    status, out, _err = ke("reproduce", "toy/table-2", *MODEL, "--limit", "2")
    assert status == 0
    assert "cases of each dataset" not in out  # all of them are counted


def test_a_dry_run_prints_planned_runs_and_missing_parts(ke, tmp_path):
    status, out, _err = ke("reproduce", "toy/table-1", *MODEL, "--dry-run", "--limit", "2")
    assert status == 0
    assert "sayer on toy, k = 1, with echo:1" in out
    assert "not runnable: Old: switched off in 2021" in out
    assert not (tmp_path / "runs").exists()


def test_a_table_can_be_copied_changed_and_run(ke, tmp_path):
    _status, text, _err = ke("reproduce", "toy/table-2", "--show")
    assert text == COUNTS
    (tmp_path / "mine.toml").write_text(text.replace("printed = [7]", "printed = [0]"))
    status, out, _err = ke("reproduce", "./mine.toml", *MODEL)
    assert status == 0
    assert "differs" not in out


def test_show_accepts_a_file(ke, tmp_path):
    (tmp_path / "mine.toml").write_text(COUNTS)
    assert ke("reproduce", "./mine.toml", "--show") == (0, COUNTS, "")
    assert ke("reproduce", "./mine.toml", "toy/table-1", "--show")[1] == COUNTS + TABLE


def test_a_dot_in_a_name_is_kept_in_file_names(ke, tmp_path):
    for name in ("mine.1", "mine.2"):
        (tmp_path / f"{name}.toml").write_text(COUNTS)
    assert ke("reproduce", "mine.1.toml", "mine.2.toml", *MODEL)[0] == 0
    written = sorted(path.name for path in (tmp_path / "runs/reproduce").glob("mine*"))
    assert written == ["mine.1.json", "mine.1.md", "mine.2.json", "mine.2.md"]


def test_two_files_of_one_name_are_refused(ke, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.toml").write_text(COUNTS)
    status, out, err = ke("reproduce", "a/t.toml", "b/t.toml", "--dry-run")
    assert (status, out) == (2, "")
    assert err.startswith("error: a/t.toml and b/t.toml have the same name: 't'"), err


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'heading = "toy"',
            'headings = "toy"',
            "mine.toml: columns[0]: unknown field 'headings'; did you mean 'heading'?",
        ),
        ("printed = [2]", "printed = [2, 3]", "mine.toml, row 1: 2 printed, not 1"),
        ("printed = [2]", "printed = [true]", "mine.toml, row 1, column 'toy': True is neither a number nor a text"),
        ("printed = [2]", 'printed = ["<1%"]', "mine.toml, row 1, column 'toy': '<1%' is no upper bound"),
        ('labels = ["cases"]', 'labels = ["cases"]\nmodel = "X"', "mine.toml, row 1: no model 'X' under [models]"),
        ("edited = 1", "edit = 1", "mine.toml, row 2, column 'toy': unknown field 'edit'; did you mean 'editor'?"),
        ("edited = 1", "seed = -1", "mine.toml, row 2, column 'toy': 'seed' must be >= 0: -1"),
        ("[set]", "[set", "mine.toml is not TOML: "),
    ],
)
def test_a_faulty_file_is_refused_with_its_place(ke, tmp_path, old, new, line):
    (tmp_path / "mine.toml").write_text(COUNTS.replace(old, new, 1))
    status, out, err = ke("reproduce", "mine.toml", *MODEL)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {line}"), err


def test_an_unknown_name_is_refused(ke):
    status, _out, err = ke("reproduce", "toy/table-9")
    assert status == 2
    assert "unknown reproduction: 'toy/table-9'" in err


def test_a_table_name_used_by_two_plugins_is_unavailable(ke, plugins):
    class Copies:
        @hookimpl(optionalhook=True)
        def ke_reproductions(self):
            return [ReproductionSpec(name="toy/table-2", text=lambda: TABLE)]

    plugins.register(Copies(), "copies")
    said = "reproduction 'toy/table-2' is registered by papers and by copies"
    status, _out, err = ke("reproduce", "toy/table-2", *MODEL)
    assert status == 2
    assert err.startswith(f"error: {said}\nhint:  uninstall copies, or leave it out")
    assert "toy/table-1" in ke("reproduce", "list")[1]
    assert f"broken: {said}" in " ".join(ke("plugins")[1].split())


def test_a_failed_run_is_reported_in_its_cells(ke, tmp_path):
    (tmp_path / "mine.toml").write_text(TABLE.replace('"sayer.word" = "Cairo"', '"sayer.wort" = "Cairo"'))
    status, out, _err = ke("reproduce", "mine.toml", *MODEL, "--limit", "2")
    assert status == 1
    assert "sayer has no option 'wort'; " in out  # and what to do
    assert "+0.0 matches" in out
