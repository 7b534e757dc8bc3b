"""``ke reproduce``: absent cells, options of models, and limited samples."""

import json

import pytest
from attrs import evolve

from ke_core.plugin import hookimpl
from ke_testing.toy import Toy, toy_spec

pytestmark = pytest.mark.integration

TABLE = """
paper = "Somebody 2020, Table 3"
title = "who is edited"
labels = ["Method"]

[set]
editor = "sayer"
dataset = "toy"
metrics = ["accuracy"]

[pick]
metric = "accuracy"
aspect = "efficacy"
style = "direct"

[models.Large]
ids = ["echo:large"]
options = { "sayer.word" = "Rome" }

[[columns]]
heading = "number"

[[rows]]
labels = ["Rome"]
model = "Large"
printed = [50.0]
"""
MODEL = ("--model", "echo:1")


class Many(Toy):
    """The two cases of the toy benchmark, three times."""

    def cases(self):
        for number, case in enumerate([*super().cases()] * 3):
            yield evolve(case, id=str(number))


class More:
    @hookimpl
    def ke_datasets(self):
        spec = toy_spec(metrics=("accuracy",), judge="exact")
        return [evolve(spec, name="many", build=lambda config: Many(config=config))]


@pytest.fixture
def plugins(plugins):
    plugins.register(More(), "more")
    return plugins


@pytest.fixture
def run(ke, tmp_path):
    """``run("text", "replacement", ..., "--limit", "2")``: the output, and the parts of each row's first cell."""

    def made(*words):
        text, *rest = TABLE, *words
        while rest and not rest[0].startswith("--"):
            old, new, *rest = rest
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "mine.toml").write_text(text)
        models = () if "--model" in rest else MODEL
        status, out, err = ke("reproduce", "mine.toml", *models, *rest)
        assert status == 0, err
        raw = json.loads((tmp_path / "runs/reproduce/mine.json").read_text())
        return out, [row["cells"][0]["parts"] for row in raw["rows"]]

    return made


def test_a_cell_that_the_paper_does_not_have_is_not_run(run, tmp_path):
    out, [[part]] = run("[50.0]", '[""]')
    assert (part["status"], part["value"], part["why"]) == ("not in the paper", None, "")
    assert "numbers: 1 not in the paper" in out
    assert [path.name for path in (tmp_path / "runs/reproduce").iterdir() if path.is_dir()] == []


def test_options_of_a_paper_model_apply_only_to_it(run):
    _out, [[own]] = run('"sayer.word" = "Rome"', '"sayer.word" = "Cairo"', "--model", "echo:large")
    _out, [[other]] = run('"sayer.word" = "Rome"', '"sayer.word" = "Cairo"')
    assert (own["value"], other["value"]) == (0.0, 50.0)


def test_options_of_a_table_override_those_of_its_models(run):
    word = ('model = "Large"', 'model = "Large"\nset = { options = { "sayer.word" = "Cairo" } }')
    _out, [[part]] = run(*word, "--model", "echo:large")
    assert part["value"] == 0.0


def test_a_number_without_cases_has_a_reason(run):
    _out, [[part]] = run('style = "direct"', 'style = "cot"\nphase = "before"\ntags = { hops = "9" }')
    assert part["why"] == "accuracy.efficacy has no number here: before editing, prompt cot, hops 9"


PARTS = 'parts = [{}, { tags = { part = "edited" } }, { tags = { part = "control" } }]'
SAMPLE = (
    'dataset = "toy"', 'dataset = "many"\nprotocol = "sample"\nedited = 3',
    'heading = "number"', f'heading = "number"\n{PARTS}',
    "[50.0]", '[[50.0, "-", "N/A"]]',
)  # fmt: skip


def test_a_limited_sample_keeps_its_edited_fraction(run):
    _out, [parts] = run(*SAMPLE, "--limit", "4")
    assert [part["n"] for part in parts] == [4, 2, 2]
    assert "k = 2, not 3" in parts[0]["notes"]


def test_the_edited_part_equals_the_total_without_controls(run):
    out, [parts] = run(*SAMPLE, "edited = 3", "edited = 100")
    whole, edited, control = parts
    assert (whole["n"], edited["n"], edited["value"]) == (6, 6, whole["value"])
    assert (control["why"], control["status"]) == ("every case is edited", "not runnable")
    assert "paper 50.0 (-, N/A)" in out


@pytest.mark.parametrize(
    ("printed", "statuses", "shown"),
    [
        (["50.04", "50.0"], ["differs", "matches"], ["50.00", "paper 50.04", "-0.04 differs", "paper 50.00"]),
        (["50.0", "50.4"], ["matches", "differs"], ["50.0", "paper 50.4", "-0.4 differs"]),
        (["50", "51"], ["matches", "differs"], ["50.0", "paper 51", "-1.0 differs"]),
    ],
)
def test_numbers_match_if_they_round_to_the_published_one(run, printed, statuses, shown):
    """Half of the answers are right, in one batch, which has no interval."""
    row = 'labels = ["Rome"]\nmodel = "Large"\nset = { batch = 2 }\nprinted = '
    rows = f"\n\n[[rows]]\n{row}".join(f"[{number}]" for number in printed)
    out, cells = run('labels = ["Rome"]\nmodel = "Large"\nprinted = [50.0]', row + rows)
    assert [part["status"] for (part,) in cells] == statuses
    assert all(words in out for words in shown)
