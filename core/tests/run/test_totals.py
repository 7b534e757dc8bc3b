"""Scores of published protocols: pooled totals, three buckets, forgetting curves."""

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate
from ke_core.runner.tables import UNFINISHED, case_lines, judge_of, read
from ke_core.spec.errors import EditFailed
from ke_core.spec.results import Value
from ke_core.spec.runspec import Plan

SAMPLE = Plan(protocol="sample", size=2)


def after(scores, tag=None):
    """Return score and n by the tag's value, in style direct after the edit."""
    own = [score for score in scores if score.phase == "after" and score.style == "direct"]
    if tag is None:
        return next((score.value, score.n) for score in own if not score.tags)
    return {score.tags[tag]: (score.value, score.n) for score in own if tag in score.tags}


def breaks(fakes, *towers):
    """An editor that also moves ``towers``, which are not edited."""

    class Clumsy(fakes.Overwrite):
        def edited(self, session, edits):
            session.model.weights |= {f"Tower {n}": "Berlin" for n in towers}
            return super().edited(session, edits)

    return Clumsy()


def test_a_total_is_pooled_over_edited_and_unedited_cases(fakes, tmp_path):
    """MQuAKE-Remastered: total = (k * edited + (N - k) * unedited) / N, unedited cases against their old answers."""
    job = fakes.make_job(10, breaks(fakes, 10, 9, 8, 7, 6), plan=SAMPLE)
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    parts = after(scores, "part")
    k, n = 2, 10
    assert parts["edited"][1] == 2 * k  # two questions a case
    assert parts["control"][1] == 2 * (n - k)
    total = (k * parts["edited"][0] + (n - k) * parts["control"][0]) / n
    assert after(scores) == (pytest.approx(total), 2 * n)
    assert 0 < parts["control"][0] < 1


def test_there_is_no_unedited_part_if_all_cases_are_edited(fakes, tmp_path):
    job = fakes.make_job(4, plan=Plan(protocol="sample", size=4))
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    assert after(scores, "part") == {}
    assert after(scores) == (1.0, 8)


def bucketed(fakes):
    """Towers 1 and 2 test only, 3 to 5 shared, 6 train only, 7 and 8 unedited: at k = 5."""
    buckets = ["test only"] * 2 + ["shared"] * 3 + ["train only"] + ["unedited"] * 2
    cases = tuple(fakes.tower(n) for n in range(1, 9))
    tagged = tuple(
        evolve(case, tags={**case.tags, "part-5": bucket, "part-9": "shared"})
        for case, bucket in zip(cases, buckets, strict=True)
    )
    split = {case.id: "unedited" if case.tags["part-5"] == "unedited" else "edited" for case in tagged}
    return tagged, fakes.Towers(made=tagged, parts=split)


def test_the_three_buckets_of_cf_6334_and_their_pooled_total(fakes, tmp_path):
    """2, 3 and 2 cases count; the one that is trained on alone is edited, asked, and in no total."""
    cases, dataset = bucketed(fakes)
    job = fakes.make_job(
        8, breaks(fakes, 1, 6, 7, 8), cases=cases, dataset=dataset, plan=Plan(protocol="sample", size=5)
    )
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    buckets = after(scores, "bucket")
    assert buckets == {"test only": (0.5, 4), "shared": (1.0, 6), "unedited": (pytest.approx(0.5), 4),
                       "train only": (0.0, 2)}  # fmt: skip
    total = sum(buckets[name][0] * buckets[name][1] for name in ("test only", "shared", "unedited")) / 14
    assert after(scores, "in the published score")["yes"] == (pytest.approx(total), 14)


def test_buckets_of_another_k_are_not_reported(fakes, tmp_path):
    cases, dataset = bucketed(fakes)
    job = fakes.make_job(8, cases=cases, dataset=dataset, plan=Plan(protocol="sample", size=3))
    assert after(evaluate(job, RunFolder.create(tmp_path, job.spec)).scores, "bucket") == {}


def test_a_forgetting_curve_counts_the_edits_after_a_cases_own(fakes, tmp_path):
    class Short(fakes.Overwrite):
        """Every edit takes back the one before the last."""

        kept = ()

        def edited(self, session, edits):
            self.kept = (*self.kept, *(edit.after.subject.label for edit in edits))
            session.model.weights |= dict.fromkeys(self.kept[:-2], "Paris")
            return super().edited(session, edits)

    plan = Plan(size=1, sequential=True, eval_every=1, eval_set="seen")
    job = fakes.make_job(4, Short(), plan=plan)
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    curve = after(scores, "edits made since")
    # asked 4, 3, 2 and 1 times with 0, 1, 2 and 3 edits after their own, two questions each; the last two stand
    assert curve == {"0": (1.0, 8), "1": (1.0, 6), "2": (0.0, 4), "3": (0.0, 2)}
    steps = after(scores, "edits made")
    assert steps == {"1": (1.0, 2), "2": (1.0, 4), "3": (pytest.approx(2 / 3), 6), "4": (0.5, 8)}
    assert after(scores) == (0.5, 8)


def test_cases_that_are_not_edited_yet_are_not_in_a_forgetting_curve(fakes, tmp_path):
    job = fakes.make_job(3, plan=Plan(size=1, sequential=True, eval_every=1, eval_set="all"))
    curve = after(evaluate(job, RunFolder.create(tmp_path, job.spec)).scores, "edits made since")
    assert {age: n for age, (_value, n) in curve.items()} == {"0": 6, "1": 4, "2": 2}


def test_cases_asked_only_after_their_own_edit_have_no_forgetting_curve(fakes, tmp_path):
    job = fakes.make_job(3, plan=Plan(size=1, sequential=True, eval_every=1, eval_set="new"))
    assert after(evaluate(job, RunFolder.create(tmp_path, job.spec)).scores, "edits made since") == {}


class LastStep:
    """A metric of the model: the number of the step."""

    def model_values(self, record):
        yield Value(aspect="step", value=float(record.batch.removeprefix("step-")))


@pytest.mark.parametrize(
    ("of", "expected"),
    [("new", {"2": (0.5, 8), "4": (1.0, 4)}), ("seen", {"2": (0.5, 8), "4": (pytest.approx(2 / 3), 12)})],
)
def test_a_failed_step_has_one_row_with_the_step_before(fakes, tmp_path, of, expected):
    """Two questions per case. With ``new``, the failed step asks other cases than the step before."""

    class SecondFails(fakes.Overwrite):
        made = 0

        def edit(self, session, edits):
            self.made += 1
            if self.made == 2:
                raise EditFailed("the update is larger than the weight")
            return super().edit(session, edits)

    job = fakes.make_job(6, SecondFails(), plan=Plan(size=2, sequential=True, eval_every=1, eval_set=of))
    job = evolve(job, measures=(*job.measures, evolve(job.measures[0], metric=LastStep())))
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    assert after(scores, "edits made") == expected
    models = [
        (score.tags["edits made"], score.value, score.n) for score in scores if score.aspect == "step" and score.tags
    ]
    assert models == [("2", 2.0, 1), ("4", 3.0, 1)]  # the model after the failed step


@pytest.mark.parametrize(("size", "of"), [(1, "new"), (2, "new"), (2, "seen"), (2, "all")])
def test_states_of_one_model_have_no_interval(fakes, tmp_path, size, of):
    """Neither over all steps, nor of a step, nor by later edits. The unedited model's cases are independent."""
    job = fakes.make_job(6, plan=Plan(size=size, sequential=True, eval_every=1, eval_set=of))
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    edited = {(score.interval, score.note) for score in scores if score.phase == "after"}
    assert edited == {(None, "one batch, no interval")}
    assert all(score.interval for score in scores if score.phase == "before" and not score.tags)


def test_an_unfinished_step_does_not_count_older_answers(fakes, tmp_path):
    """Killed there, case 3 was a control when it was answered last: it is no edited case with that answer."""
    job = fakes.make_job(3, plan=Plan(size=1, sequential=True, eval_every=1, eval_set="all"))
    folder = RunFolder.create(tmp_path, job.spec)
    evaluate(job, folder)
    index = read(folder)
    *_others, own = case_lines(index, job.cases, judge_of(index, folder, ""), folder)
    whole = own.last()
    begun, _edited = own.within[-1]
    killed = evolve(own, lines=[line for line in own.lines if line.batch != begun.batch]).last()
    assert (whole.batch, whole.edited) == (begun.batch, True)
    assert (killed.batch, killed.edited) == (own.within[-2][0].batch, False)
    unasked = evolve(own, lines=[line for line in own.lines if line.phase == "before"]).last()
    assert (unasked.batch, unasked.skipped) == (begun.batch, UNFINISHED)
