"""``ke reproduce``: counts, differences, required dtypes, judges with options, and replaced datasets."""

import json
from functools import partial

import pytest
from attrs import evolve, field, frozen

from ke_core.app import JudgeModel, ModelChoice, RunFolder, judge_folder, read_catalog, score_folder
from ke_core.plugin import BadData, JudgeSpec, Judgment, MetricSpec, Value, Verdict, hookimpl
from ke_testing.fakes import SilentProgress
from ke_testing.toy import Toy, toy_spec

pytestmark = pytest.mark.integration

TABLE = """
paper = "Somebody 2020, Table 4"
title = "kinds of numbers"
labels = ["Method"]

[set]
editor = "sayer"
dataset = "toy"

[pick]
metric = "accuracy"
aspect = "efficacy"
style = "direct"

[models.Large]
ids = ["echo:large"]

[[columns]]
heading = "first"

[[columns]]
heading = "second"

[[rows]]
labels = ["Rome"]
model = "Large"
printed = [50.0, 1]
"""
ROW = 'model = "Large"'


@frozen(kw_only=True)
class Placed:
    """Configuration of a missing dataset."""

    data_dir: str | None = field(default=None, metadata={"help": "where"})


@frozen(kw_only=True)
class Mood:
    verdict: str = field(default="wrong", metadata={"help": "what everything is"})


class Moody:
    def __init__(self, config):
        self.verdict = Verdict[config.verdict.upper()]

    def judge(self, session, items):
        return [Judgment(verdict=self.verdict) for _item in items]


@frozen(kw_only=True)
class Constant:
    value: float = field(default=0.0, metadata={"help": "what it yields"})

    def values(self, record):
        for phase, style, _query in record.outcomes:
            yield Value(aspect="efficacy", value=self.value, phase=phase, style=style, unit=record.case.id)


class Kinds:
    """``looked``: how often the missing datasets were searched."""

    def __init__(self):
        self.looked = 0

    @hookimpl
    def ke_datasets(self):
        spec = toy_spec(metrics=("accuracy",), judge="exact")
        outer = self

        class Away(Toy):
            def cases(self):
                outer.looked += 1
                raise BadData("away.json is not here", hint="nowhere to be had")

        away = evolve(spec, config=Placed, build=lambda config: Away(config=config))
        return [evolve(away, name="away"), evolve(away, name="gone")]

    @hookimpl
    def ke_judges(self):
        return [JudgeSpec(name="moody", summary="by mood", config=Mood, build=Moody, needs_model=True)]

    @hookimpl
    def ke_metrics(self):
        return [MetricSpec(name="constant", summary="itself", config=Constant, build=lambda config: config)]


@pytest.fixture
def kinds():
    return Kinds()


@pytest.fixture
def plugins(plugins, kinds):
    plugins.register(kinds, "kinds")
    return plugins


@pytest.fixture
def run(ke, tmp_path):
    """``run(more, *options)``: the parts of the row, one per column; ``more`` is added to the row."""

    def made(more, *options, text=TABLE):
        (tmp_path / "mine.toml").write_text(text.replace(ROW, f"{ROW}\n{more}"))
        status, _out, err = ke("reproduce", "mine.toml", "--model", "echo:1", *options)
        assert status == 0, err
        raw = json.loads((tmp_path / "runs/reproduce/mine.json").read_text())
        return [part for cell in raw["rows"][0]["cells"] for part in cell["parts"]]

    return made


def test_a_row_can_have_a_pick_per_column(run):
    share, count = run('picks = [{ phase = "after" }, { what = "count" }]')
    assert (share["value"], share["status"]) == (50.0, "matches")
    assert (count["value"], count["n"], count["status"]) == (1.0, 2, "matches")
    negative, n = run('picks = [{ what = "negative" }, { what = "n" }]')
    assert (negative["value"], negative["status"], n["value"]) == (-50.0, "differs", 2.0)
    assert negative["low"] <= negative["value"] <= negative["high"]


def test_the_number_of_picks_must_match_the_columns(ke, tmp_path):
    (tmp_path / "mine.toml").write_text(TABLE.replace(ROW, f'{ROW}\npicks = [{{ what = "n" }}]'))
    status, _out, err = ke("reproduce", "mine.toml", "--model", "echo:1")
    assert status == 2
    assert "mine.toml, row 1: 1 picks, not 2" in err


def test_a_table_can_require_a_dtype(run, tmp_path):
    run('set = { dtype = "float16" }', "--dtype", "bfloat16")
    (folder,) = (tmp_path / "runs/reproduce").glob("sayer-toy-*")
    assert json.loads((folder / "run.json").read_text())["spec"]["model"]["dtype"] == "float16"


@pytest.mark.parametrize(("verdict", "value"), [("right", 100.0), ("wrong", 0.0)])
def test_a_judge_with_a_model_gets_its_options(run, verdict, value):
    more = f'set = {{ judge = "moody", options = {{ "moody.verdict" = "{verdict}" }} }}'
    part = run(more, "--judge-model", "echo:1")[0]
    assert part["value"] == value
    assert part["high"] - part["low"] == pytest.approx(100 * (1 - 0.025**0.5), abs=1e-3)  # the score's own: two cases


def test_a_run_that_is_judged_later_is_scored_with_the_metric_options(run):
    more = """
picks = [{ metric = "constant" }, {}]
set = { judge = "moody", options = { "constant.value" = "0.25" } }
"""
    assert run(more, "--judge-model", "echo:1")[0]["value"] == 25.0


CONSTANT = """
picks = [{ metric = "constant" }, {}]
set = { options = { "constant.value" = "0.25" } }
"""


@pytest.fixture
def opened(plugins, tmp_path):
    """``opened()``: the only run of the table, and the catalog."""

    def made():
        (path,) = (tmp_path / "runs/reproduce").glob("sayer-toy-*")
        return RunFolder.open(path), read_catalog(plugins)

    return made


def judged_again(folder, catalog):
    asking = JudgeModel(model=ModelChoice(reference="echo:1"), progress=SilentProgress())
    judge_folder(folder, catalog, name="moody", asking=asking)
    score_folder(folder, catalog)


@pytest.mark.parametrize(
    "change",
    [
        partial(score_folder, options={"constant": {"value": "0.75"}}),
        partial(score_folder, metrics=["accuracy"]),
        judged_again,
    ],
)
def test_a_finished_run_is_scored_again_as_the_table_requests(run, opened, change):
    first = run(CONSTANT)
    folder, catalog = opened()
    scores = folder.scores()
    change(folder, catalog)
    assert folder.scores() != scores
    assert run(CONSTANT) == first
    assert [part["value"] for part in first] == [25.0, 50.0]


def test_a_judge_with_a_model_does_not_keep_the_options_of_a_later_score(run, opened):
    more = 'picks = [{ metric = "constant" }, {}]\nset = { judge = "moody" }'
    assert run(more, "--judge-model", "echo:1")[0]["value"] == 0.0
    score_folder(*opened(), options={"constant": {"value": "0.75"}})
    assert run(more, "--judge-model", "echo:1")[0]["value"] == 0.0


def test_scores_that_fit_the_table_are_kept(run, tmp_path, monkeypatch):
    run(CONSTANT)
    monkeypatch.setattr("ke_plugin_reproduce.judging.score_run", None)
    assert run(CONSTANT)[0]["value"] == 25.0


def test_a_judge_model_is_loaded_once_and_only_for_unjudged_replies(run, monkeypatch):
    loaded, load = [], ModelChoice.load
    monkeypatch.setattr(ModelChoice, "load", lambda self, *rest: loaded.append(self.reference) or load(self, *rest))
    more = 'over = [{ judge = "moody" }, { judge = "moody", options = { "moody.verdict" = "right" } }]'
    for _command in range(2):
        part, _again = run(more, "--judge-model", "echo:judge")
        assert part["value"] == 50.0  # the mean of all wrong and all right
    assert loaded.count("echo:judge") == 1


def test_options_of_a_replaced_dataset_are_dropped(run, kinds, tmp_path):
    (part, _again) = run('set = { dataset = "away" }', "--dataset", "toy", "--data-dir", str(tmp_path))
    assert (part["value"], part["notes"]) == (50.0, ["echo:1 in place of Large", "toy in place of away"])
    assert kinds.looked == 1


def test_one_replacement_for_several_datasets_is_run_once(run, kinds, tmp_path):
    (part, _again) = run('over = [{ dataset = "away" }, { dataset = "gone" }]', "--dataset", "toy")
    assert part["n"] == 2
    assert part["notes"][1:] == ["toy in place of away", "toy in place of gone"]
    assert kinds.looked == 2


def test_tested_queries_exclude_the_edit_itself(run):
    """Each toy case has two hops and two wordings of the question."""
    picks = [f'{{ source = "statistics", aspect = "tested queries per case{words}" }}' for words in ("", " and aspect")]
    of_all, of_each = run(f"picks = [{', '.join(picks)}]")
    assert (of_all["value"], of_each["value"]) == (4.0, 2.0)
