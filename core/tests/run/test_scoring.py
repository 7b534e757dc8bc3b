import gc
import json
import weakref

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.runner import evaluate as evaluation
from ke_core.runner.evaluate import ask_models, evaluate
from ke_core.runner.judging import judge_run
from ke_core.runner.run import OpenJudge
from ke_core.runner.scoring import score_run
from ke_core.spec.errors import BadRun, PluginBroken
from ke_core.spec.records import Judged
from ke_core.spec.results import Value, Verdict
from ke_core.spec.runspec import Plan


def finished(job, path):
    folder = RunFolder.create(path, job.spec)
    return folder, evaluate(job, folder)


def verdicts(folder, phase):
    return {
        (line.case, query): judgment.verdict
        for line in folder.read()
        if isinstance(line, Judged) and line.phase == phase and line.style == "direct"
        for query, judgment in line.judgments.items()
    }


def test_gold_and_pre_edit_answers_are_swapped_before_editing_and_for_controls(fakes, tmp_path):
    job = fakes.make_job(4, plan=Plan(protocol="sample", size=2))
    folder, _end = finished(job, tmp_path)
    assert set(verdicts(folder, "before").values()) == {Verdict.RIGHT}
    # a control that still says Paris is right, an edited case that says Rome is right
    assert set(verdicts(folder, "after").values()) == {Verdict.RIGHT}
    nobody = fakes.make_job(4, NoEdit(fakes), plan=Plan(protocol="sample", size=2))
    folder, _end = finished(nobody, tmp_path / "none")
    found = verdicts(folder, "after")
    assert sorted(found.values(), key=str) == [Verdict.PRE_EDIT] * 4 + [Verdict.RIGHT] * 4


def NoEdit(fakes):  # noqa: N802
    class Nothing(fakes.Overwrite):
        def edit(self, session, edits):
            return super().edit(session, [])

    return Nothing()


def test_deleted_scores_are_computed_again_with_the_same_bytes(fakes, tmp_path):
    folder, end = finished(fakes.make_job(6, plan=Plan(size=2)), tmp_path)
    first = (tmp_path / "scores.json").read_bytes()
    (tmp_path / "scores.json").unlink()
    job = fakes.make_job(6, plan=Plan(size=2))
    again = score_run(RunFolder.open(tmp_path), list(job.dataset.cases()), job.measures)
    assert (tmp_path / "scores.json").read_bytes() == first
    assert tuple(again) == end.scores
    raw = json.loads(first)
    assert raw["run"] == folder.id
    assert raw["judge"]["name"] == "exact"
    assert raw["metrics"][0]["component"]["name"] == "share"


def test_scores_are_sliced_by_the_metrics_tags(fakes, tmp_path):
    _folder, end = finished(fakes.make_job(6), tmp_path)
    found = {tuple(s.tags.items()): s for s in end.scores if s.phase == "after" and s.style == "direct"}
    assert found[()].n == 12
    assert found[("hops", "2"),].n == found[("hops", "3"),].n == 6
    assert found[()].value == 1.0


def test_skipped_cases_are_counted_with_their_reason(fakes, tmp_path):
    refused = fakes.tower(2).edits[0].id
    job = fakes.make_job(3, fakes.Overwrite(refuses=frozenset({refused})))
    _folder, end = finished(job, tmp_path)
    (after,) = [s for s in end.scores if s.phase == "after" and s.style == "" and not s.tags]
    reason = f"edit {refused} refused: no such tower"
    assert (after.skipped, dict(after.skipped_because)) == (1, {reason: 1})
    assert end.skipped == 1


def test_failures_are_wrong_for_every_judge(fakes, tmp_path):
    editor = fakes.Notes([], fakes.Failing(these=frozenset({"1"})))
    folder, end = finished(fakes.make_job(2, editor, editor_spec=fakes.NOTES), tmp_path)
    (score,) = [s for s in end.scores if s.style == "own" and not s.tags]
    assert score.n == 4  # two failures, in n
    found = [line for line in folder.read() if isinstance(line, Judged) and line.style == "own" and line.case == "1"]
    assert {j.verdict for j in found[0].judgments.values()} == {Verdict.WRONG}
    assert {j.findings[0].item for j in found[0].judgments.values()} == {"ServerGone"}


def test_a_run_that_is_not_judged_cannot_be_scored(fakes, tmp_path):
    job = fakes.make_job(2)
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    with pytest.raises(BadRun, match="has not been judged yet"):
        score_run(folder, job.cases, job.measures)
    with pytest.raises(BadRun, match="has not been scored"):
        folder.scores()


def test_judging_resumes(fakes, tmp_path):
    job = fakes.make_job(4)
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    assert judge_run(folder, job.cases, job.judging) == 16
    assert judge_run(folder, job.cases, job.judging) == 0
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "records.jsonl").write_bytes(b"".join(lines[:-5]))
    with pytest.raises(BadRun, match="5 of 16 lines"):
        score_run(folder, job.cases, job.measures)
    assert judge_run(folder, job.cases, job.judging) == 5
    assert (tmp_path / "records.jsonl").read_bytes().splitlines(keepends=True) == lines


def test_the_last_judge_counts_even_if_it_judged_before(fakes, tmp_path):
    class Strict:
        def judge(self, session, items):
            return [evolve(j, verdict=Verdict.WRONG) for j in fakes.Exact().judge(session, items)]

    job = fakes.make_job(2)
    folder, _end = finished(job, tmp_path)
    strict = fakes.component("exact", match="never")
    assert judge_run(folder, job.cases, OpenJudge(judge=Strict(), component=strict)) == 8
    assert {s.value for s in score_run(folder, job.cases, job.measures)} == {0.0}
    assert judge_run(folder, job.cases, job.judging) == 0
    assert {s.value for s in score_run(folder, job.cases, job.measures)} == {1.0}
    assert {s.value for s in score_run(folder, job.cases, job.measures, judge="exact")} == {1.0}
    with pytest.raises(BadRun, match="by 'llm'"):
        score_run(folder, job.cases, job.measures, judge="llm")


def test_nan_and_missing_reasons_raise_errors(fakes, tmp_path):
    class Metric:
        def __init__(self, value):
            self.value = value

        def values(self, record):
            yield self.value

    job = fakes.make_job(2)
    folder, _end = finished(job, tmp_path)
    for value, says in (
        (Value(aspect="x", value=float("nan")), "case 1, aspect 'x': the value is nan"),
        (Value(aspect="x", value=None), "no value and no reason"),
    ):
        measure = evolve(job.measures[0], metric=Metric(value))
        with pytest.raises(PluginBroken, match=says):
            score_run(folder, job.cases, [measure])


def test_a_metric_gets_every_query(fakes, tmp_path):
    """Five wordings give five outcomes."""
    one = fakes.tower(1)
    queries = tuple(evolve(one.probes[2].queries[0], id=f"q{n}") for n in range(5))
    case = evolve(one, probes=(evolve(one.probes[2], queries=queries),))
    seen = []

    class Metric:
        def values(self, record):
            seen.append(len([key for key in record.outcomes if key[:2] == ("after", "cot")]))
            return ()

    job = fakes.make_job(1, cases=(case,))
    finished(evolve(job, measures=(evolve(job.measures[0], metric=Metric()),)), tmp_path)
    assert seen == [5]


def test_too_few_judgments_raise_plugin_broken(fakes, tmp_path):
    class Lazy:
        def judge(self, session, items):
            return []

    job = fakes.make_job(1)
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    with pytest.raises(PluginBroken, match="0 judgments of"):
        judge_run(folder, job.cases, OpenJudge(judge=Lazy(), component=fakes.component("lazy")))


def test_records_of_unknown_cases_are_refused(fakes, tmp_path):
    job = fakes.make_job(2)
    folder, _end = finished(job, tmp_path)
    with pytest.raises(BadRun, match="has case 2"):
        score_run(folder, job.cases[:1], job.measures)
    with pytest.raises(BadRun, match="query country of case 2"):
        judge_run(folder, job.cases[:1], evolve(job.judging, component=fakes.component("other")))


def test_scores_of_an_unfinished_run_name_the_missing_cases(fakes, tmp_path):
    job = fakes.make_job(3, plan=Plan(size=None))
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "records.jsonl").write_bytes(b"".join(lines[:-2]))
    judge_run(folder, job.cases, job.judging)
    (waiting,) = [s for s in score_run(folder, job.cases, job.measures) if s.skipped and not s.tags]
    assert dict(waiting.skipped_because) == {"not asked yet: the run is not finished": 1}


class Passing:
    """Cases that are read one by one. ``kept``: the maximum number of earlier cases in memory."""

    def __init__(self, cases):
        self.cases, self.kept, self.rounds = cases, 0, 0

    def __iter__(self):
        self.rounds += 1
        given = []
        for case in self.cases:
            gc.collect()
            self.kept = max(self.kept, sum(one() is not None for one in given))
            passing = evolve(case)
            given.append(weakref.ref(passing))
            yield passing


@pytest.mark.integration
@pytest.mark.parametrize("plan", [Plan(size=2), Plan(size=2, sequential=True, eval_every=1, eval_set="seen")])
def test_judging_and_scoring_keep_no_finished_case_in_memory(fakes, tmp_path, plan):
    job = fakes.make_job(8, plan=plan)
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    passing = Passing(job.cases)
    judge_run(folder, passing, job.judging)
    score_run(folder, passing, job.measures)
    assert passing.rounds == 2
    assert passing.kept <= 6  # judged together: at most 64 lines
    only = Passing(job.cases)
    score_run(folder, only, job.measures)
    assert only.kept <= 1


def test_a_metric_gets_each_case_of_a_step_once_with_its_tags(fakes, tmp_path):
    seen = []

    class Seeing:
        def values(self, record):
            seen.append((record.case.id, record.batch, dict(record.case.tags)))
            return [Value(aspect="a", value=1.0)]

    job = fakes.make_job(4, plan=Plan(size=1, sequential=True, eval_every=1, eval_set="seen"))
    folder, _end = finished(job, tmp_path)
    (measure,) = job.measures
    score_run(folder, job.cases, [evolve(measure, metric=Seeing())])
    tags = {case.id: dict(case.tags) for case in job.cases}
    assert len(seen) == 4 + (1 + 2 + 3 + 4), "the whole run, then each step"
    assert all(found == tags[case] for case, _batch, found in seen)


def test_a_run_killed_while_judging_is_finished_by_judging_and_scoring(fakes, tmp_path, monkeypatch):
    def interrupted(*_given):
        raise KeyboardInterrupt

    job = fakes.make_job(3)
    folder = RunFolder.create(tmp_path, job.spec)
    monkeypatch.setattr(evaluation, "judge_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(job, folder)
    assert (folder.complete, folder.finished) == (True, False)
    judge_run(folder, job.cases, job.judging)
    score_run(folder, job.cases, job.measures)
    assert folder.finished
