"""``ke import``: external predictions become a run; errors name file and line."""

import json

import pytest
from attrs import evolve, frozen

from ke_core.app import Batch, Replied, RunFolder
from ke_core.plugin import JudgeSpec, Judgment, MetricSpec, Value, Verdict, hookimpl
from ke_testing.toy import Toy, toy_spec


@pytest.fixture
def take(ke, tmp_path):
    """Write the lines to ``theirs.jsonl`` and import them into ``run``."""

    def imported(*lines, out="run", dataset="toy", arguments=()):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / "theirs.jsonl").write_text(text, encoding="utf-8")
        return ke("import", "theirs.jsonl", "--dataset", dataset, "--out", out, *arguments)

    return imported


@frozen(kw_only=True)
class FoldingConfig:
    fold: bool = False


@frozen(kw_only=True)
class FlippedConfig:
    flip: bool = False


@frozen(kw_only=True)
class Folding:
    config: FoldingConfig

    def judge(self, session, items):
        fold = str.casefold if self.config.fold else str
        right = [fold(item.reply.text) == fold(item.query.gold.entities[0].label) for item in items]
        return [Judgment(verdict=Verdict.RIGHT if one else Verdict.WRONG) for one in right]


@frozen(kw_only=True)
class Flipped:
    config: FlippedConfig

    def values(self, record):
        for (phase, style, _query), outcome in record.outcomes.items():
            right = (outcome.judgment.verdict is Verdict.RIGHT) != self.config.flip
            yield Value(aspect="right", value=float(right), phase=phase, style=style)


class Spaced(Toy):
    """The toy dataset with a space after every question, as in parts of MQuAKE."""

    def cases(self):
        for case in super().cases():
            yield evolve(case, probes=tuple(evolve(one, queries=self._spaced(one.queries)) for one in case.probes))

    def _spaced(self, queries):
        return tuple(evolve(one, texts=tuple(f"{text} " for text in one.texts)) for one in queries)


class SpacedPlugin:
    """A dataset, a judge and a metric; the last two have options."""

    @hookimpl
    def ke_datasets(self):
        spec = toy_spec(metrics=("flipped",), judge="folding")
        return [evolve(spec, name="spaced", build=lambda config: Spaced(config=config))]

    @hookimpl
    def ke_judges(self):
        return [JudgeSpec(name="folding", summary="the label", config=FoldingConfig, build=lambda c: Folding(config=c))]

    @hookimpl
    def ke_metrics(self):
        return [MetricSpec(name="flipped", summary="right", config=FlippedConfig, build=lambda c: Flipped(config=c))]


@pytest.fixture
def _spaced(plugins):
    plugins.register(SpacedPlugin(), "spaced")


def line(case="1", query="hop-1", text="Rome", **more):
    return {"case": case, "query": query, "text": text, **more}


def scores(path):
    raw = json.loads((path / "scores.json").read_bytes())
    return {
        (one["aspect"], one["phase"], one["style"]): (one["value"], one["n"])
        for metric in raw["metrics"]
        for one in metric["scores"]
        if not one["tags"]
    }


def test_predictions_are_judged_and_scored(ke, take, tmp_path):
    status, out, err = take(line(), line("1", "hop-2", "Spain"), line("2", "hop-1", "Paris"))
    assert status == 0
    assert scores(tmp_path / "run")["efficacy", "after", "own"] == (0.5, 2)
    assert scores(tmp_path / "run")["other", "after", "own"] == (0.0, 1)
    assert "ke report run --full" in out
    out = ke("report", "run", "--full")[1]
    assert "model: not stated, imported answers" in out
    assert "imported" in out
    assert "run: 3 answers, 1 question left out" in err
    assert " at 0.00 s each" not in out


def test_a_query_can_be_identified_by_its_text(take, tmp_path):
    question = next(Toy().cases()).probes[0].queries[0].texts[0]
    assert take(line(query=question))[0] == 0
    (reply,) = [record for record in RunFolder.open(tmp_path / "run").read() if isinstance(record, Replied)]
    assert list(reply.replies) == ["hop-1"]


@pytest.mark.usefixtures("_spaced")
@pytest.mark.parametrize("outer", ["", " "])
def test_outer_white_space_of_a_question_is_ignored(take, tmp_path, outer):
    question = next(Toy().cases()).probes[0].queries[0].texts[0] + outer
    status, _out, err = take(line(query=question), dataset="spaced")
    assert (status, err.count("error")) == (0, 0)
    (reply,) = [record for record in RunFolder.open(tmp_path / "run").read() if isinstance(record, Replied)]
    assert list(reply.replies) == ["hop-1"]


@pytest.mark.usefixtures("_spaced")
@pytest.mark.parametrize(
    ("fold", "flip", "value"), [("false", "false", 0.0), ("true", "false", 1.0), ("true", "true", 0.0)]
)
def test_options_of_the_judge_and_the_metrics_are_used(take, tmp_path, fold, flip, value):
    options = ("-o", f"folding.fold={fold}", "-o", f"flipped.flip={flip}")
    assert take(line(text="rome"), dataset="spaced", arguments=options)[0] == 0
    raw = json.loads((tmp_path / "run" / "scores.json").read_bytes())
    assert raw["judge"]["options"] == {"fold": fold == "true"}
    assert raw["metrics"][0]["component"]["options"] == {"flip": flip == "true"}
    assert scores(tmp_path / "run")["right", "after", "own"] == (value, 1)


def test_an_option_of_another_component_is_refused_before_anything_is_written(take, tmp_path):
    status, _out, err = take(line(), arguments=("-o", "sayer.word=x"))
    assert (status, "which this run does not use" in err) == (2, True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("editors", [("",), ("x", "y")])
def test_a_file_with_only_pre_edit_answers_is_refused(take, tmp_path, editors):
    lines = [line("1", "multi-hop-1", "Italy", phase="before", editor=editor) for editor in editors]
    status, _out, err = take(*lines, line(editor="z"))
    name = editors[0] or "imported"
    assert status == 2
    assert f'theirs.jsonl: every line of editor \'{name}\' has "phase": "before"' in " ".join(err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "line 2 is cut off"),
        ("[1]", "line 2 is not a JSON object"),
        (line(case="9"), "line 2: case '9' is not in toy"),
        ({"query": "hop-1", "text": "x"}, "line 2: case is missing or empty"),
        (line(query="hop-9"), "line 2: query 'hop-9' is not a query of case 1 after editing"),
        (line(query="hop-1-before"), "line 2: query 'hop-1-before' is not a query of case 1 after editing"),
        ({"case": "1", "query": "hop-2"}, "line 2: text is missing"),
        (line(query="hop-2", text=3), "line 2: text is not a text"),
        (line(query="hop-2", phase="later"), "line 2: phase 'later' is unknown: use one of before, after"),
        (line(query="hop-2", style="loud"), "line 2: style 'loud' is unknown: use one of direct, cot, own"),
        (line(query="hop-2", answer="x"), "line 2: 'answer' is not a field of a prediction"),
        (line(), "line 2: query 'hop-1' of case 1 is already answered in theirs.jsonl, line 1"),
        (line(query="hop-2", batch="b"), "line 2: batch or edited of case 1 differ from theirs.jsonl, line 1"),
        (line(query="hop-2", edited="no"), "line 2: edited is neither true nor false"),
    ],
)
def test_errors_name_file_and_line_and_write_nothing(take, tmp_path, bad, says):
    status, _out, err = take(line(), bad)
    assert status == 2
    assert f"theirs.jsonl, {says}" in err
    assert not (tmp_path / "run").exists()


def test_an_unknown_query_suggests_similar_ids(take):
    assert "such as multi-hop-1" in " ".join(take(line(query="multihop-1"))[2].split())


def test_an_empty_file_is_an_error(take):
    assert "theirs.jsonl has no predictions" in take("")[2]


def test_missing_cases_are_skipped_with_the_reason(ke, take, tmp_path):
    out = take(line())[1]
    assert "warning: 1 case skipped (" in out
    out = ke("report", "run", "--full")[1]
    assert "1 case skipped:" in out
    assert "1 x theirs.jsonl has no answer" in out
    (absent,) = [record for record in RunFolder.open(tmp_path / "run").read()
                 if isinstance(record, Batch) and record.skipped]  # fmt: skip
    assert absent.skipped == {"2": "theirs.jsonl has no answer"}


def test_cases_with_only_pre_edit_answers_are_skipped(take, tmp_path):
    take(line(), line("2", "multi-hop-1", "France", phase="before"))
    reasons = [r.skipped for r in RunFolder.open(tmp_path / "run").read() if isinstance(r, Batch) and r.skipped]
    assert reasons == [{"2": "theirs.jsonl has no answer after editing"}]


def test_missing_questions_are_recorded_and_wrong_only_on_request(take, tmp_path):
    lines = (line("1", "multi-hop-1", "Italy"), line("2", "multi-hop-0", "x"))
    take(*lines)
    assert scores(tmp_path / "run")["other", "after", "own"] == (0.5, 2)
    batches = [record for record in RunFolder.open(tmp_path / "run").read() if isinstance(record, Batch)]
    assert batches[0].details["left out"] == {"1/after/own": ["multi-hop-0"]}
    take(*lines, out="wrong", arguments=("--missing", "wrong"))
    # efficacy and instance stand nowhere in the file, and are not counted against it
    assert scores(tmp_path / "wrong")["other", "after", "own"] == (0.25, 4)


def test_a_control_is_judged_by_its_pre_edit_answer(take, tmp_path):
    take(line(batch="all"), line("2", "multi-hop-1", "Germany", batch="all", edited=False),
         line("1", "multi-hop-1", "Germany", batch="all"))  # fmt: skip
    folder = RunFolder.open(tmp_path / "run")
    assert (folder.spec.plan.protocol, folder.spec.plan.size) == ("sample", 1)
    (batch,) = [record for record in folder.read() if isinstance(record, Batch)]
    assert (batch.cases, batch.controls, batch.edits) == (("1",), ("2",), 1)
    raw = json.loads((tmp_path / "run" / "scores.json").read_bytes())["metrics"][0]["scores"]
    own = {one["tags"]["part"]: one["value"] for one in raw if one["aspect"] == "other" and "part" in one["tags"]}
    assert own == {"edited": 0.0, "control": 1.0}


def test_several_editors_become_several_runs(take, tmp_path):
    assert take(line(editor="x"), line(text="Paris", editor="../y z"), out="runs")[0] == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"x", "y-z"}
    assert RunFolder.open(tmp_path / "runs" / "y-z").spec.editor.name == "../y z"
    err = take(line(editor="a b"), line(editor="a/b"), out="more")[2]
    assert "the editors 'a b' and 'a/b' would share the folder" in err


def test_importing_again_gives_the_same_run_and_another_file_is_refused(take, tmp_path):
    take(line())
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    assert take(line())[0] == 0
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before
    status, _out, err = take(line(text="Paris"))
    assert (status, "run holds another run: " in err, ".sha256 " in err) == (2, True, True)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_an_interrupted_import_resumes(take, tmp_path, kept):
    given = line(), line("2", "hop-1", "Paris")
    take(*given)
    records, scored = tmp_path / "run" / "records.jsonl", tmp_path / "run" / "scores.json"
    whole, numbers = records.read_bytes(), scored.read_bytes()
    lines = whole.splitlines(keepends=True)
    scored.unlink()
    records.write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
    assert take(*given)[0] == 0
    assert records.read_bytes() == whole
    assert scored.read_bytes() == numbers


def test_an_imported_run_can_be_compared_with_a_native_run(take, ke, tmp_path):
    ke("eval", "--dataset", "toy", "--model", "echo:1", "--editor", "sayer", "--out", "own")
    take(line(), line("2", "hop-1", "nowhere"))
    status, out, err = ke("compare", "own", "run")
    assert (status, err) == (0, "")
    assert "direct / method" in out
