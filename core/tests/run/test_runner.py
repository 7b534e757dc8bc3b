"""The order of a run: unedited answers, edits, requests, restoring, records."""

from contextlib import contextmanager
from itertools import count
from types import MappingProxyType

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.results.tally import tally_of
from ke_core.runner import steps
from ke_core.runner.evaluate import ask_models
from ke_core.runner.prepare import refuse
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.spec.errors import BadConfig, KEError, NeedsWeights, PluginBroken, TooManyFailures, WeightsNotRestored
from ke_core.spec.facts import NO_SUBJECT, Edit, FreeForm
from ke_core.spec.records import Batch, Replied
from ke_core.spec.requests import Question
from ke_core.spec.results import Answer, Failure, Peak
from ke_core.spec.runspec import Plan


def done(job, path):
    """The records of a finished run."""
    folder = RunFolder.create(path, job.spec)
    finished = ask_models(job, folder)
    return evolve(finished, failures=tally_of(folder).failed), list(folder.read())


def replied(records, **wanted):
    found = (evolve(r, seconds=0.0, memory=Peak()) for r in records if isinstance(r, Replied))
    return [r for r in found if all(getattr(r, name) == value for name, value in wanted.items())]


def batches(records):
    return [r for r in records if isinstance(r, Batch)]


def test_the_unedited_model_is_asked_before_the_first_edit(fakes, tmp_path):
    job = fakes.make_job(4)
    _finished, records = done(job, tmp_path)
    kinds = [kind for kind, _what in job.session.model.log]
    first = kinds.index("edit")
    assert first == len([kind for kind in kinds[:first] if kind == "ask"]) > 0
    base = replied(records, batch=UNEDITED_BATCH)
    assert len(base) == 4 * 2  # a line for each case and style
    assert all(reply.text in ("Paris", "France") for line in base for reply in line.replies.values())
    assert all(line.phase == "before" for line in base)


def test_unedited_answers_do_not_depend_on_the_editor(fakes, tmp_path):
    _finished, one = done(fakes.make_job(3), tmp_path / "one")
    _finished, other = done(fakes.make_job(3, fakes.Notes([]), editor_spec=fakes.NOTES), tmp_path / "other")
    assert replied(one, batch=UNEDITED_BATCH) == replied(other, batch=UNEDITED_BATCH)


def test_editors_with_own_before_are_asked_without_edits_first(fakes, tmp_path):
    """ReCoE compares before and after with the same prompt, the editor's own."""
    spec, seen = evolve(fakes.NOTES, own_before=True), []
    _finished, records = done(fakes.make_job(3, fakes.Notes(seen), editor_spec=spec), tmp_path)
    own = replied(records, batch=UNEDITED_BATCH, style="own")
    assert [(line.case, line.phase, set(line.replies)) for line in own] == [
        (case, "before", {"where", "country"}) for case in "123"
    ]
    assert {reply.text for line in own for reply in line.replies.values()} == {"Paris"}
    first, *rest = seen
    assert all(not question.own and not question.hidden for question in first)
    assert [len(questions) for questions in rest] == [2, 2, 2]
    order = [(line.phase, line.style) for line in replied(records)]
    assert order == sorted(order, key=lambda at: (at[0] != "before", at[1] == "own"))


def test_only_missing_control_requests_are_sent(fakes, tmp_path):
    _finished, old = done(fakes.make_job(2, fakes.Notes([]), editor_spec=fakes.NOTES), tmp_path)
    again = fakes.make_job(2, fakes.Notes([]), editor_spec=evolve(fakes.NOTES, own_before=True))
    _finished, records = done(again, tmp_path)
    assert records[: len(old)] == old
    assert [(line.phase, line.style) for line in replied(records[len(old) :])] == [("before", "own")] * 2
    _finished, third = done(again, tmp_path)
    assert third == records


def test_the_edited_model_answers_and_the_model_is_restored(fakes, tmp_path):
    job = fakes.make_job(4)
    before = dict(job.session.model.weights)
    _finished, records = done(job, tmp_path)
    after = replied(records, phase="after", style="direct")
    assert [line.case for line in after] == ["1", "2", "3", "4"]
    assert {reply.text for line in after for reply in line.replies.values()} == {"Rome", "Italy"}
    assert job.session.model.weights == before


def test_edits_affect_only_the_requests_of_their_group(fakes, tmp_path):
    """EasyEdit returns a model that is already restored; here requests are sent inside the context."""
    job = fakes.make_job(3)
    seen = []
    plain = job.session.model.generate
    job.session.model.generate = lambda requests: (
        seen.append([n for n, city in job.session.model.weights.items() if city == "Rome"]),
        plain(requests),
    )[1]
    done(job, tmp_path)
    assert [towers for towers in seen if towers] == [["Tower 1"], ["Tower 2"], ["Tower 3"]]


def test_case_ids_are_those_of_the_dataset_in_every_batch(fakes, tmp_path):
    _finished, records = done(fakes.make_job(5, plan=Plan(size=2)), tmp_path)
    assert [len(batch.cases) for batch in batches(records)] == [2, 2, 1]
    assert sorted(case for batch in batches(records) for case in batch.cases) == ["1", "2", "3", "4", "5"]
    assert sorted(line.case for line in replied(records, phase="after", style="direct")) == ["1", "2", "3", "4", "5"]


def test_records_are_keyed_by_batch_case_phase_and_style(fakes, tmp_path):
    _finished, records = done(fakes.make_job(2), tmp_path)
    keys = [(line.batch, line.case, line.phase, line.style) for line in replied(records)]
    assert len(keys) == len(set(keys)) == 8
    assert set(replied(records, case="1", phase="before", style="direct")[0].replies) == {"known", "where", "country"}
    assert set(replied(records, case="1", phase="after", style="cot")[0].replies) == {"country"}
    assert replied(records, case="2", phase="after", style="direct")[0].batch == "batch-2"


def test_batch_lines_hold_the_editors_details_and_counts(fakes, tmp_path):
    _finished, records = done(fakes.make_job(4, plan=Plan(size=4)), tmp_path)
    (batch,) = batches(records)
    assert (batch.edits, batch.details, batch.refused, batch.skipped) == (4, {"norm": 4}, {}, {})


def test_a_case_with_a_refused_edit_is_recorded_with_its_reason(fakes, tmp_path):
    refused = fakes.tower(2).edits[0].id
    editor = fakes.Overwrite(refuses=frozenset({refused}))
    job = fakes.make_job(3, editor, plan=Plan(size=None))
    finished, records = done(job, tmp_path)
    (batch,) = batches(records)
    assert batch.cases == ("1", "3")
    assert batch.refused == {refused: "no such tower"}
    assert batch.skipped == {"2": f"edit {refused} refused: no such tower"}
    assert finished.skipped == 1
    assert not replied(records, case="2", phase="after")
    assert refused not in dict(job.session.model.log)["edit"]


@pytest.mark.parametrize("plan", [Plan(size=None, eval_limit=3), Plan(size=2, sequential=True, eval_limit=3)])
def test_refused_edits_of_cases_that_are_not_asked_skip_no_case(fakes, tmp_path, plan):
    every = fakes.make_job(8, plan=plan)
    asked = frozenset[str]().union(*(group.asked for group in every.groups))
    refused = frozenset(edit.id for case in every.cases if case.id not in asked for edit in case.edits)
    finished, records = done(fakes.make_job(8, fakes.Overwrite(refuses=refused), plan=plan), tmp_path)
    assert (len(refused), sum(len(batch.refused) for batch in batches(records)), finished.skipped) == (5, 5, 0)
    assert {one.case for one in replied(records, phase="after")} == asked


def test_editors_that_need_a_subject_get_no_edit_without_one(fakes, tmp_path):
    free = Edit(id="free", statement="x y", free_form=FreeForm(prompt="x", target="y"))
    cases = (fakes.tower(1), evolve(fakes.tower(2), edits=(free,)))
    spec = evolve(fakes.OVERWRITE, needs_subject=True)
    job = fakes.make_job(2, fakes.Overwrite(), cases=cases, editor_spec=spec, plan=Plan(size=None))
    _finished, records = done(job, tmp_path)
    (batch,) = batches(records)
    assert batch.refused == {"free": NO_SUBJECT}
    assert batch.skipped == {"2": f"edit free refused: {NO_SUBJECT}"}
    assert dict(job.session.model.log)["edit"] == cases[0].edits[0].id


def test_uneditable_cases_are_skipped_with_the_reason_of_the_dataset(fakes, tmp_path):
    cases = (fakes.tower(1), evolve(fakes.tower(2), edits=(), not_editable="the edit changes nothing"))
    finished, records = done(fakes.make_job(2, cases=cases, plan=Plan(size=None)), tmp_path)
    (batch,) = batches(records)
    assert (batch.cases, batch.skipped) == (("1",), {"2": "the edit changes nothing"})
    assert finished.skipped == 1


def test_a_batch_without_valid_edits_applies_none(fakes, tmp_path):
    refused = frozenset(fakes.tower(n).edits[0].id for n in (1, 2))
    job = fakes.make_job(2, fakes.Overwrite(refuses=refused))
    finished, records = done(job, tmp_path)
    assert finished.skipped == 2
    assert [batch.edits for batch in batches(records)] == [0, 0]
    assert all(kind == "ask" for kind, _what in job.session.model.log)


def test_an_edit_of_a_skipped_case_is_applied_if_another_case_needs_it(fakes, tmp_path):
    one, two = fakes.tower(1), fakes.tower(2)
    both = evolve(one, id="both", edits=(one.edits[0], two.edits[0]))
    editor = fakes.Overwrite(refuses=frozenset({two.edits[0].id}))
    job = fakes.make_job(2, editor, cases=(both, one), plan=Plan(size=None))
    _finished, records = done(job, tmp_path)
    (batch,) = batches(records)
    assert (batch.cases, set(batch.skipped), batch.edits) == (("1",), {"both"}, 1)


def test_editors_of_single_edits_apply_them_one_after_another(fakes, tmp_path):
    spec = evolve(fakes.OVERWRITE, one_at_a_time=True)
    job = fakes.make_job(3, editor_spec=spec, plan=Plan(size=None))
    _finished, records = done(job, tmp_path)
    made = [what for kind, what in job.session.model.log if kind == "edit"]
    assert made == [fakes.tower(n).edits[0].id for n in (1, 2, 3)]
    assert {r.text for line in replied(records, phase="after") for r in line.replies.values()} == {"Rome", "Italy"}
    assert list(batches(records)[0].details["edits"]) == made
    assert not job.spec.joint


def test_the_sample_protocol_asks_controls_without_their_edits(fakes, tmp_path):
    job = fakes.make_job(5, plan=Plan(protocol="sample", size=2))
    _finished, records = done(job, tmp_path)
    (batch,) = batches(records)
    assert (len(batch.cases), len(batch.controls)) == (2, 3)
    for line in replied(records, phase="after", style="direct"):
        city = "Rome" if line.case in batch.cases else "Paris"
        assert line.replies["where"].text == city


def test_weights_not_restored_names_the_changed_weights(fakes, tmp_path):
    job = fakes.make_job(3, fakes.Overwrite("cheats"))
    with pytest.raises(WeightsNotRestored, match="weight Tower 1"):
        done(job, tmp_path)


def test_weights_not_restored_detects_leftover_hooks(fakes, tmp_path):
    with pytest.raises(WeightsNotRestored, match="hooks"):
        done(fakes.make_job(3, fakes.Overwrite("hook")), tmp_path)


def test_restoring_is_checked_after_an_exception(fakes, tmp_path):
    class Worse(fakes.Overwrite):
        @contextmanager
        def edit(self, session, edits):
            session.model.weights["Tower 2"] = "Rome"
            raise KEError("no")
            yield

    with pytest.raises(WeightsNotRestored, match="Tower 2") as caught:
        done(fakes.make_job(3, Worse()), tmp_path)
    assert isinstance(caught.value.__context__, KEError)


def test_the_digest_is_fresh_while_edited(fakes, tmp_path):
    """It is part of the cache key: an editor that writes without ``patch`` must not get old texts."""
    job = fakes.make_job(2)
    digests = []
    plain = job.session.model.generate
    job.session.model.generate = lambda requests: (digests.append(job.session.model.digest), plain(requests))[1]
    done(job, tmp_path)
    assert len(set(digests)) == 3  # unedited, tower 1 moved, tower 2 moved


def test_an_interrupt_leaves_model_and_records_intact(fakes, tmp_path):
    job = fakes.make_job(4)
    before = dict(job.session.model.weights)
    plain = job.session.model.generate

    def interrupted(requests):
        if job.session.model.weights["Tower 3"] == "Rome":
            raise KeyboardInterrupt
        return plain(requests)

    job.session.model.generate = interrupted
    folder = RunFolder.create(tmp_path, job.spec)
    with pytest.raises(KeyboardInterrupt):
        ask_models(job, folder)
    assert job.session.model.weights == before
    assert [line.case for line in replied(folder.read(), phase="after", style="cot")] == ["1", "2"]
    job.session.model.generate = plain
    ask_models(job, folder)
    assert [line.case for line in replied(folder.read(), phase="after", style="cot")] == ["1", "2", "3", "4"]


def test_a_resumed_batch_is_edited_before_its_remaining_requests(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr("ke_core.runner.steps.CHUNK", 1)
    job = fakes.make_job(4, plan=Plan(size=None))
    folder = RunFolder.create(tmp_path / "whole", job.spec)
    ask_models(job, folder)
    lines = (tmp_path / "whole" / "records.jsonl").read_bytes().splitlines(keepends=True)
    cut = RunFolder.create(tmp_path / "cut", job.spec)
    (tmp_path / "cut" / "records.jsonl").write_bytes(b"".join(lines[:-4]))  # cases 3 and 4 are missing
    again = fakes.make_job(4, plan=Plan(size=None))
    ask_models(again, cut)
    log = again.session.model.log
    assert log[0][0] == "edit"
    assert len(log[0][1].split()) == 4  # all edits of the batch, not only those of the cases that remain
    assert all("Tower 3" in what or "Tower 4" in what for kind, what in log if kind == "ask")
    assert replied(cut.read()) == replied(folder.read())


def test_a_finished_run_started_again_edits_and_asks_nothing(fakes, tmp_path):
    job = fakes.make_job(3)
    _finished, records = done(job, tmp_path)
    again = fakes.make_job(3)
    finished, after = done(again, tmp_path)
    assert again.session.model.log == []
    assert after == records
    assert (finished.failures, finished.skipped) == (0, 0)


def test_failures_are_recorded_and_counted(fakes, tmp_path):
    editor = fakes.Notes([], fakes.Failing(these=frozenset({"2"})))
    finished, records = done(fakes.make_job(3, editor, editor_spec=fakes.NOTES), tmp_path)
    assert finished.failures == 2  # where, country
    (line,) = replied(records, case="2", phase="after")
    assert set(line.replies.values()) == {Failure(error="ServerGone", message="gone")}


def test_ten_identical_failures_in_a_row_stop_the_run_and_are_asked_again(fakes, tmp_path):
    editor = fakes.Notes([], fakes.Failing(these=frozenset(str(n) for n in range(4, 20))))
    job = fakes.make_job(20, editor, editor_spec=fakes.NOTES, plan=Plan(size=None))
    folder = RunFolder.create(tmp_path, job.spec)
    with pytest.raises(TooManyFailures, match="ServerGone: gone"):
        ask_models(job, folder)
    assert [line.case for line in replied(folder.read(), phase="after")] == ["1", "2", "3"]
    mended = fakes.make_job(20, fakes.Notes([]), editor_spec=fakes.NOTES, plan=Plan(size=None))
    assert ask_models(mended, folder).failures == 0
    assert len(replied(folder.read(), phase="after")) == 20


@pytest.mark.parametrize(("error", "stops"), [("ServerDown", True), ("ServerRefused", True), ("ValueError", False)])
def test_server_failures_count_as_identical_whatever_their_message(fakes, tmp_path, error, stops):
    number = count()
    editor = fakes.Notes([], lambda _ask: Failure(error=error, message=f"429: used {next(number)} of 10 tokens"))
    job = fakes.make_job(20, editor, editor_spec=fakes.NOTES, plan=Plan(size=None))
    folder = RunFolder.create(tmp_path, job.spec)
    if stops:
        with pytest.raises(TooManyFailures, match=f"10 times in a row: {error}: 429"):
            ask_models(job, folder)
    else:
        ask_models(job, folder)
        assert tally_of(folder).failed == 40


def test_prompts_that_are_too_long_do_not_stop_the_run(fakes, tmp_path):
    """A method that shows more facts than fit: "out of memory" in published tables."""

    def too_long(_ask):
        return Failure(error="ContextOverflow", message="a prompt of 9000 tokens")

    finished, records = done(fakes.make_job(20, fakes.Notes([], too_long), editor_spec=fakes.NOTES), tmp_path)
    assert len(replied(records, phase="after")) == 20
    assert finished.failures == 40


def test_models_that_edits_destroyed_do_not_stop_the_run(fakes, tmp_path):
    def not_finite(_request):
        return Failure(error="NotFinite", message="the logits are not finite")

    finished, _records = done(fakes.make_job(20, fakes.Notes([], not_finite), editor_spec=fakes.NOTES), tmp_path)
    assert finished.failures == 40


def test_a_failed_edit_fails_its_cases_and_the_run_continues(fakes, tmp_path):
    class Sometimes(fakes.Overwrite):
        def edit(self, session, edits):
            self.flaw = "fails" if "tower-2" in edits[0].id else ""
            return super().edit(session, edits)

    finished, records = done(fakes.make_job(3, Sometimes()), tmp_path)
    assert finished.failures == 3  # where and country, and country again in style cot
    failed = replied(records, case="2", phase="after")
    assert {reply.error for line in failed for reply in line.replies.values()} == {"EditFailed"}
    assert len(batches(records)) == 3
    assert len(replied(records, case="3", phase="after")) == 2


def test_an_editor_whose_edits_all_fail_stops_the_run(fakes, tmp_path):
    with pytest.raises(TooManyFailures, match="larger than the weight"):
        done(fakes.make_job(12, fakes.Overwrite("fails")), tmp_path)


def test_too_few_replies_raise_plugin_broken(fakes, tmp_path):
    class Short(fakes.Notes):
        def answer(self, asks):
            return [Answer(text="one")]

    with pytest.raises(PluginBroken, match="notes returned 1 replies to 2 questions"):
        done(fakes.make_job(2, Short([]), editor_spec=fakes.NOTES), tmp_path)


def test_a_weight_editor_on_a_model_without_weights_is_refused(fakes):
    from ke_testing.fakes import EchoModel

    with pytest.raises(NeedsWeights, match="overwrite changes weights"):
        refuse(fakes.make_job(2, model=EchoModel()))


def test_editors_that_cannot_hide_edits_are_refused_by_masking_datasets(fakes):
    with pytest.raises(BadConfig, match="cannot hide"):
        refuse(fakes.make_job(2, hides=True))


def test_requests_have_hidden_and_own_edits_but_no_gold_answers(fakes, tmp_path):
    seen = []
    cases = tuple(fakes.tower(n) for n in (1, 2, 3))
    job = fakes.make_job(
        3, fakes.Notes(seen), editor_spec=fakes.NOTES, hides=True, dataset=fakes.Towers(made=cases, mask=True),
        plan=Plan(protocol="sample", size=2),
    )  # fmt: skip
    _finished, records = done(job, tmp_path)
    (batch,) = batches(records)
    bank = {fakes.tower(int(n)).edits[0].id for n in batch.cases}
    for ask in seen[0]:
        assert isinstance(ask, Question)
        case = fakes.tower_of(ask)
        mine = fakes.tower(int(case)).edits[0].id
        assert ask.own == ((mine,) if case in batch.cases else ())
        assert ask.hidden == bank - {mine}
        assert "Italy" not in str(ask)


def test_editors_with_own_prompts_get_each_query_once(fakes, tmp_path):
    seen = []
    job = fakes.make_job(2, fakes.Notes(seen), editor_spec=fakes.NOTES, plan=Plan(size=None))
    _finished, records = done(job, tmp_path)
    assert sorted(ask.texts[0] for ask in seen[0]) == [
        "In which city is Tower 1?",
        "In which city is Tower 2?",
        "In which country is Tower 1?",
        "In which country is Tower 2?",
    ]
    assert {ask.prompt.text.split()[0] for ask in seen[0]} == {"direct"}
    assert {line.style for line in replied(records, phase="before")} == {"direct", "cot"}


def test_the_cases_of_a_batch_are_asked_together(fakes, tmp_path):
    seen = []
    done(fakes.make_job(100, fakes.Notes(seen), editor_spec=fakes.NOTES, plan=Plan(size=None)), tmp_path)
    assert len(seen) == 1
    assert len(seen[0]) == 200


def test_details_that_are_not_json_raise_plugin_broken(fakes, tmp_path):
    class Odd(fakes.Notes):
        details = MappingProxyType({"norm": float("nan")})

    with pytest.raises(PluginBroken, match="a value that JSON cannot hold"):
        done(fakes.make_job(1, Odd([]), editor_spec=fakes.NOTES), tmp_path)


class LooksAhead:
    """An editor that records the upcoming edits at each of its edits."""

    def __init__(self, overwrite):
        self.overwrite = overwrite
        self.seen = []

    def check(self, session, edits):
        return self.overwrite.check(session, edits)

    def edit(self, session, edits):
        self.seen.append(([edit.id for edit in edits], [edit.id for edit in session.upcoming()]))
        return self.overwrite.edit(session, edits)


def test_an_editor_sees_the_edits_of_the_next_groups(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "AHEAD", 3)
    job = fakes.make_job(5)
    editor = LooksAhead(fakes.Overwrite(refuses=frozenset([job.cases[2].edits[0].id])))
    done(fakes.make_job(5, editor), tmp_path)
    one, two, _refused, four, five = (case.edits[0].id for case in job.cases)
    assert editor.seen == [([one], []), ([two], [four, five]), ([four], [five]), ([five], [])]


def test_a_sequence_has_no_upcoming_edits(fakes, tmp_path):
    """They will be made on another model."""
    editor = LooksAhead(fakes.Overwrite())
    done(fakes.make_job(4, editor, plan=Plan(sequential=True)), tmp_path)
    assert [later for _edits, later in editor.seen] == [[]] * 4
