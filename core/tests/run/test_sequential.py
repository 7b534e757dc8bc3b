"""Sequential editing: the order of edits and requests, failures, and resuming."""

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.results.lines import to_line
from ke_core.runner.evaluate import ask_models, evaluate
from ke_core.runner.plan import Group, groups, stages
from ke_core.runner.scoring import records_of
from ke_core.spec.errors import EditFailed, TooManyFailures, UnsupportedChange
from ke_core.spec.records import Batch, Replied
from ke_core.spec.results import Answer, Failure
from ke_core.spec.runspec import Plan
from ke_plugin_analysis.answers import RecordedAnswers

SEQUENCE = Plan(size=2, sequential=True)


def asked(job, path):
    """Return (batch, case, answers) of the edited models in style direct, and the batches."""
    folder = RunFolder.create(path, job.spec)
    ask_models(job, folder)
    records = list(folder.read())
    lines = [
        (line.batch, line.case, tuple(getattr(reply, "text", reply) for reply in line.replies.values()))
        for line in records
        if isinstance(line, Replied) and line.phase == "after" and line.style in ("direct", "own")
    ]
    return lines, [record for record in records if isinstance(record, Batch)]


@pytest.mark.parametrize(
    ("evaluate", "of", "expected"),
    [
        (None, "seen", [[], [], ["1", "2", "3", "4", "5"]]),
        (1, "new", [["1", "2"], ["3", "4"], ["5"]]),
        (1, "seen", [["1", "2"], ["1", "2", "3", "4"], ["1", "2", "3", "4", "5"]]),
        (2, "new", [[], ["1", "2", "3", "4"], ["5"]]),
        (2, "all", [[], ["1", "2", "3", "4", "5"], ["1", "2", "3", "4", "5"]]),
    ],
)
def test_cases_asked_after_each_step(fakes, evaluate, of, expected):
    plan = evolve(SEQUENCE, eval_every=evaluate, eval_set=of)
    cases = [fakes.tower(n) for n in range(1, 6)]
    in_file_order = [Group.of(group.id, cases[start : start + 2], (), group.asked) for start, group in
                     zip((0, 2, 4), groups(cases, plan, 0, lambda _k, _seed: None), strict=True)]  # fmt: skip
    found = stages(in_file_order, plan)
    assert [sorted(stage.asked.asked) for stage in found] == expected
    assert [len(stage.asked.edited) for stage in found] == [2, 4, 5]
    assert [len(stage.asked.controls) for stage in found] == [3, 1, 0]


def test_edits_stay_active_until_the_end_and_are_then_restored(fakes, tmp_path):
    job = fakes.make_job(5, plan=evolve(SEQUENCE, eval_every=1, eval_set="all"))
    before = dict(job.session.model.weights)
    lines, steps = asked(job, tmp_path)
    moved = {
        step.batch: {case for batch, case, texts in lines if batch == step.batch and "Rome" in texts} for step in steps
    }
    assert [len(moved[f"step-{n}"]) for n in (1, 2, 3)] == [2, 4, 5]
    assert moved["step-1"] < moved["step-2"] < moved["step-3"]
    assert [(step.step, step.edits, len(step.cases), len(step.controls)) for step in steps] == [
        (1, 2, 2, 3), (2, 2, 4, 1), (3, 1, 5, 0),
    ]  # fmt: skip
    assert job.session.model.weights == before


def test_a_batch_is_added_with_change_if_the_method_supports_it(fakes, tmp_path):
    class Growing(fakes.Notes):
        added = ()

        def change(self, *, add=(), remove=()):
            self.added += tuple(edit.id for edit in add)

    editor = Growing([])
    asked(fakes.make_job(4, editor, editor_spec=fakes.NOTES, plan=SEQUENCE), tmp_path)
    assert len(editor.added) == 2  # the first two came with the edit itself
    assert len(editor.seen) == 1


def test_a_batch_edits_the_edited_model_if_change_is_unsupported(fakes, tmp_path):
    class Stubborn(fakes.Notes):
        def change(self, *, add=(), remove=()):
            raise UnsupportedChange("no")

    editor = Stubborn([])
    lines, _steps = asked(fakes.make_job(4, editor, editor_spec=fakes.NOTES, plan=SEQUENCE), tmp_path)
    assert len(lines) == 4


def test_a_resumed_run_applies_all_edits_and_asks_only_the_rest(fakes, tmp_path):
    plan = evolve(SEQUENCE, eval_every=1, eval_set="seen")
    whole, _steps = asked(fakes.make_job(5, plan=plan), tmp_path / "whole")
    job = fakes.make_job(5, plan=plan)
    folder = RunFolder.create(tmp_path / "cut", job.spec)
    ask_models(job, folder)
    file = tmp_path / "cut" / "records.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines) + 1):
        file.write_bytes(b"".join(lines[:kept]))
        again = fakes.make_job(5, plan=plan)
        found, _batches = asked(again, tmp_path / "cut")
        assert sorted(found, key=str) == sorted(whole, key=str)
        edits = [what for kind, what in again.session.model.log if kind == "edit"]
        if kept < len(lines):
            assert len(edits) == 3 or not edits
        else:
            assert not edits


def fails_the(fakes, number):
    """An editor whose N-th edit fails."""

    class FailsOnce(fakes.Overwrite):
        made = 0

        def edit(self, session, edits):
            self.made += 1
            if self.made == number:
                raise EditFailed("the update is larger than the weight")
            return super().edit(session, edits)

    return FailsOnce()


def test_a_failed_batch_fails_only_its_own_cases(fakes, tmp_path):
    lines, steps = asked(fakes.make_job(6, fails_the(fakes, 2), plan=SEQUENCE), tmp_path)
    assert [step.failed for step in steps] == ["", "the update is larger than the weight", ""]
    wrong = [case for _batch, case, texts in lines if any(isinstance(text, Failure) for text in texts)]
    assert len(wrong) == 2
    assert sum("Rome" in texts for _batch, _case, texts in lines) == 4


def one_at_a_time(job):
    return evolve(job, spec=evolve(job.spec, joint=False))


def test_a_failed_edit_undoes_the_earlier_edits_of_its_group(fakes, tmp_path):
    plan = evolve(SEQUENCE, eval_every=1, eval_set="all")
    job = one_at_a_time(fakes.make_job(6, fails_the(fakes, 4), plan=plan))
    before = dict(job.session.model.weights)
    lines, steps = asked(job, tmp_path)
    assert [bool(step.failed) for step in steps] == [False, True, False]
    moved = [sum("Rome" in texts for batch, _case, texts in lines if batch == step.batch) for step in steps]
    assert moved == [2, 2, 4]
    assert job.session.model.weights == before


def test_changes_of_a_failed_group_are_removed_from_the_method(fakes, tmp_path):
    class Growing(fakes.Notes):
        held: tuple = ()

        def edit(self, session, edits):
            self.held = tuple(edit.id for edit in edits)
            return super().edit(session, edits)

        def change(self, *, add=(), remove=()):
            if len(self.held) == 3 and add:
                raise EditFailed("full")
            self.held = (*(name for name in self.held if name not in remove), *(edit.id for edit in add))

    editor = Growing([])
    _lines, steps = asked(one_at_a_time(fakes.make_job(4, editor, editor_spec=fakes.NOTES, plan=SEQUENCE)), tmp_path)
    assert [bool(step.failed) for step in steps] == [False, True]
    assert editor.held == tuple(steps[0].details["edits"])


def fails_at(fakes, these):
    """An editor whose edits of towers in ``these`` fail."""

    class Sometimes(fakes.Overwrite):
        def edit(self, session, edits):
            if any(int(edit.after.subject.label.split()[1]) in these for edit in edits):
                raise EditFailed("the update is larger than the weight")
            return super().edit(session, edits)

    return Sometimes()


@pytest.mark.parametrize("size", [1, 10])
def test_a_failed_edit_counts_once(fakes, tmp_path, size):
    """Every third edit fails: never ten in a row, but more than ten cases that are asked in a row at the end."""
    these = {n for n in range(1, 37) if n % 3 == 0} if size == 1 else {3, 20}
    plan = evolve(SEQUENCE, size=size)
    job = fakes.make_job(36, fails_at(fakes, these), plan=plan)
    lines, steps = asked(job, tmp_path)
    assert len(lines) == 36
    assert len(steps) == {1: 36, 10: 4}[size]
    assert 0 < sum(bool(step.failed) for step in steps) <= 12


def test_ten_identical_edit_failures_in_a_row_stop_the_run(fakes, tmp_path):
    job = fakes.make_job(20, fails_at(fakes, set(range(5, 15))), plan=evolve(SEQUENCE, size=1))
    with pytest.raises(TooManyFailures, match="10 times in a row: EditFailed"):
        asked(job, tmp_path)
    mended, steps = asked(fakes.make_job(20, plan=evolve(SEQUENCE, size=1)), tmp_path)
    assert len(mended) == 20
    assert len(steps) == 20


def growing(fakes, reply=None):
    """An editor whose edits never fail, although its answers may."""

    class Growing(fakes.Notes):
        def change(self, *, add=(), remove=()):
            pass

    return Growing([], reply)


def test_a_dead_server_stops_a_run_whose_edits_need_no_server(fakes, tmp_path):
    editor = growing(fakes, lambda _ask: Failure(error="ServerDown", message="the server answers 503"))
    plan = evolve(SEQUENCE, size=1, eval_every=1, eval_set="new")
    with pytest.raises(TooManyFailures, match="ServerDown"):
        asked(fakes.make_job(20, editor, editor_spec=fakes.NOTES, plan=plan), tmp_path)


def test_replies_of_a_repeated_early_step_do_not_replace_the_last(fakes, tmp_path):
    plan = evolve(SEQUENCE, eval_every=1, eval_set="all")
    sick = iter([True] * 8)  # the first step: four cases, two questions each

    def once_down(_ask):
        return Failure(error="ServerDown", message="gone") if next(sick, False) else Answer(text="Rome")

    job = fakes.make_job(4, growing(fakes, once_down), editor_spec=fakes.NOTES, plan=plan)
    folder = RunFolder.create(tmp_path, job.spec)
    assert evaluate(job, folder).failures == 8
    late = growing(fakes, lambda _ask: Answer(text="Berlin"))
    again = evaluate(fakes.make_job(4, late, editor_spec=fakes.NOTES, plan=plan), folder)
    assert again.failures == 0
    found = RecordedAnswers.of(folder, job.judging.component)
    shown = [
        reply.text for case in found.values() for (_q, phase, _s), reply in case.replies.items() if phase == "after"
    ]
    assert shown == ["Rome"] * 8
    texts = [outcome.reply.text for record in records_of(folder, job.cases)[1] for outcome in record.outcomes.values()]
    assert "Berlin" not in texts


def test_answers_of_a_killed_run_are_of_the_same_step_as_its_scores(fakes, tmp_path):
    job = fakes.make_job(4, plan=evolve(SEQUENCE, eval_every=1, eval_set="all"))
    folder = RunFolder.create(tmp_path, job.spec)
    evaluate(job, folder)
    records = folder.path / "records.jsonl"
    whole = records.read_text().splitlines(keepends=True)
    records.write_text("".join(line for line in whole if '"batch":"step-2"' not in line or '"kind":"batch"' in line))
    (folder.path / "records.seal.json").unlink()
    found = RecordedAnswers.of(folder, job.judging.component)
    scored = {record.case.id: record.edited for record in records_of(folder, job.cases)[1]}
    assert sorted(scored.values()) == [False, False, True, True]
    assert {name: case.edited for name, case in found.items()} == scored
    assert {case.rounds for case in found.values()} == {1}


def test_a_case_with_a_refused_edit_is_skipped_in_every_step(fakes, tmp_path):
    refused = fakes.tower(2).edits[0].id
    editor = fakes.Overwrite(refuses=frozenset({refused}))
    lines, steps = asked(fakes.make_job(5, editor, plan=evolve(SEQUENCE, eval_every=1)), tmp_path)
    assert "2" not in {case for _batch, case, _texts in lines}
    assert sum("2" in step.skipped for step in steps) == 1


def test_scores_cover_the_last_answers_and_each_step(fakes, tmp_path):
    job = fakes.make_job(6, plan=evolve(SEQUENCE, eval_every=1, eval_set="all"))
    scores = evaluate(job, RunFolder.create(tmp_path, job.spec)).scores
    found = [score for score in scores if score.phase == "after" and score.style == "direct"]
    assert [(score.value, score.n) for score in found if not score.tags] == [(1.0, 12)]
    by_step = {score.tags["edits made"]: (score.value, score.n) for score in found if "edits made" in score.tags}
    assert by_step == {"2": (1.0, 12), "4": (1.0, 12), "6": (1.0, 12)}  # unedited cases keep the old answer


def test_a_step_lists_only_its_own_unasked_cases(fakes, tmp_path):
    _lines, steps = asked(fakes.make_job(8, plan=SEQUENCE), tmp_path / "end")
    assert [(len(step.unasked), len(step.cases)) for step in steps] == [(2, 0), (2, 0), (2, 0), (0, 8)]
    assert {case for step in steps for case in (*step.cases, *step.unasked)} == {str(n) for n in range(1, 9)}
    long = fakes.make_job(80, plan=evolve(SEQUENCE, size=1, eval_every=1, eval_set="new"))
    assert {len(step.unasked) + len(step.cases) for step in asked(long, tmp_path / "new")[1]} == {1}


def test_steps_that_list_earlier_unasked_cases_give_the_same_scores(fakes, tmp_path):
    plan = evolve(SEQUENCE, eval_every=2, eval_set="new")
    job = fakes.make_job(8, plan=plan)
    folder = RunFolder.create(tmp_path, job.spec)
    scores = evaluate(job, folder).scores
    file = folder.path / "records.jsonl"
    earlier, once = (), []
    for record in folder.read():
        if isinstance(record, Batch):
            earlier = tuple(dict.fromkeys((*earlier, *record.unasked, *record.cases)))
            record = evolve(record, unasked=tuple(case for case in earlier if case not in record.cases))  # noqa: PLW2901
        once.append(to_line(record))
    assert b"".join(once) != file.read_bytes()
    file.write_bytes(b"".join(once))
    (folder.path / "records.seal.json").unlink()
    again = fakes.make_job(8, plan=plan)
    assert evaluate(again, folder).scores == scores
    assert again.session.model.log == []  # nothing is edited or asked again
