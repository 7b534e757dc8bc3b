"""Requests for log-probabilities, and metrics that send requests of their own to every model."""

import gc
import json
import time
from types import MappingProxyType

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.results.tally import tally_of
from ke_core.runner.evaluate import evaluate
from ke_core.runner.recorder import LIMIT
from ke_core.runner.requests import RequestBuilder
from ke_core.runner.run import Measure
from ke_core.runner.scoring import records_of, requests_of
from ke_core.runner.tables import highest, models, read
from ke_core.runner.usage import measured_phase, resident
from ke_core.spec.codec import from_json, to_json
from ke_core.spec.errors import NoLikelihood, PluginBroken, TooManyFailures
from ke_core.spec.queries import Probe
from ke_core.spec.records import Batch, Judged, Probed, Replied
from ke_core.spec.requests import Likelihood
from ke_core.spec.results import Answer, Failure, ForwardCalls, Peak, Scored, Value, Verdict
from ke_core.spec.runspec import DataRef, Plan, RunSpec
from ke_core.spec.specs import MetricSpec

PASSAGE = Likelihood(id="", case="", query="passage", prompt="It was", continuations=(" raining again",))


class ModelShare:
    """The negative log-probability of the passage and the seconds of the edits, or the reason why there is none."""

    def model_values(self, record):
        reply = record.replies.get("passage")
        known = isinstance(reply, Scored)
        yield Value(
            aspect="nll",
            value=-reply.logprobs[0] if known else None,
            phase=record.phase,
            skipped_because="" if known else record.skipped or getattr(reply, "message", "not asked"),
        )
        if record.phase == "after" and not record.skipped:
            yield Value(aspect="seconds", value=record.seconds / record.edits)


def spec_of(fakes, **changes):
    return MetricSpec(
        **{
            "name": "weather",
            "summary": "of one passage",
            "build": lambda _config: ModelShare(),
            "requests": lambda _config: (PASSAGE,),
            "measures": {"nll": "", "seconds": "s"},
            **changes,
        }
    )


def asking(fakes, job):
    """Create a run with a metric that asks every model for one passage."""
    measure = Measure(
        component=fakes.component("weather"), spec=spec_of(fakes), metric=ModelShare(), requests=(PASSAGE,)
    )
    spec = evolve(job.spec, requests=(DataRef(component=measure.component, sha256="0"),))
    return evolve(job, spec=spec, measures=(*job.measures, measure))


def scored_tower(fakes, n):
    """Return the tower with a probe for the probability of Rome and Paris after its cloze."""
    case = fakes.tower(n)
    (edit,) = case.edits
    where = case.probes[0].queries[0]
    asked = evolve(
        where, id="scored", form="cloze", texts=(where.cloze,), cloze=None, continuations=(" Rome", " Paris")
    )
    return evolve(case, probes=(*case.probes, Probe(id="p", aspect="p", queries=(asked,), edits=(edit.id,))))


def finished(job, path):
    folder = RunFolder.create(path, job.spec)
    return folder, evaluate(job, folder)


def records(folder, kind):
    return [record for record in folder.read() if isinstance(record, kind)]


def replies(folder, query, phase="after", style="direct"):
    return {
        line.case: line.replies[query]
        for line in records(folder, Replied)
        if (line.phase, line.style) == (phase, style) and query in line.replies
    }


# --- scored queries --------------------------------------------------------------------------------------


def test_queries_with_continuations_request_log_probabilities(fakes):
    case = scored_tower(fakes, 1)
    asker = RequestBuilder(dataset=fakes.Towers(made=()), styles=("direct", "cot"), edited_form="question")
    (unit, _cot) = asker.after(case, {edit.id: edit for edit in case.edits}, edited=True)
    (ask,) = [ask for ask in unit.questions if isinstance(ask, Likelihood)]
    assert ask == Likelihood(
        id="1/after/direct/scored",
        case="1",
        query="scored",
        texts=("Tower 1 is located in",),
        form="cloze",
        prompt="Tower 1 is located in",
        continuations=(" Rome", " Paris"),
        own=tuple(edit.id for edit in case.edits),
    )


def test_log_probabilities_are_recorded_and_not_judged(fakes, tmp_path):
    job = fakes.make_job(cases=tuple(scored_tower(fakes, n) for n in (1, 2)))
    folder, end = finished(job, tmp_path)  # the judge of the fakes fails on a reply without text
    assert replies(folder, "scored") == dict.fromkeys("12", Scored(logprobs=(-5.0, -6.0), tokens=(1, 1)))
    found = {
        judgment.verdict for line in records(folder, Judged) for q, judgment in line.judgments.items() if q == "scored"
    }
    assert found == {Verdict.UNSURE}
    assert end.failures == 0


def test_declined_log_probabilities_count_as_wrong_if_others_are_given(fakes, tmp_path):
    cases = tuple(scored_tower(fakes, n) for n in range(1, 5))
    none = Failure(error=NoLikelihood.__name__, message="words only")

    def reply(ask):
        if not isinstance(ask, Likelihood):
            return Answer(text="Rome")
        return none if "Tower 1" in ask.prompt else Scored(logprobs=(-1.0, -2.0), tokens=(1, 1))

    job = fakes.make_job(editor=fakes.Notes([], reply), cases=cases, plan=Plan(size=None), editor_spec=fakes.OVERWRITE)
    folder, _end = finished(job, tmp_path)
    assert list(replies(folder, "scored").values()).count(none) == 1  # the record keeps the reply
    _judge, seen = records_of(folder, cases)
    counted = [
        outcome
        for record in seen
        for (phase, _style, query), outcome in record.outcomes.items()
        if (phase, query) == ("after", "scored") and isinstance(outcome.reply, Failure)
    ]
    assert [(one.reply.error, one.reply.unscored, one.judgment.verdict) for one in counted] == [
        ("LikelihoodDeclined", False, Verdict.WRONG)
    ]
    assert tally_of(folder).failed == 1


@pytest.mark.parametrize("says", ["raises", "replies"])
def test_editors_without_log_probabilities_do_not_fail(fakes, tmp_path, says):
    cases = tuple(scored_tower(fakes, n) for n in range(1, LIMIT + 3))
    reply = Failure(error=NoLikelihood.__name__, message="words only")
    editor = fakes.Notes([], lambda ask: reply if isinstance(ask, Likelihood) else Answer(text="Rome"))
    if says == "raises":
        editor = Wordy(fakes)
    job = fakes.make_job(editor=editor, cases=cases, plan=Plan(size=None), editor_spec=fakes.OVERWRITE)
    folder, end = finished(job, tmp_path)
    assert set(replies(folder, "scored").values()) == {reply}
    assert end.failures == 0


def Wordy(fakes):  # noqa: N802
    class Words:
        details = MappingProxyType({})

        def __init__(self, session):
            self.session = session

        def answer(self, asks):
            return self.session.engine.answer(self.solve, asks)

        def solve(self, ask):
            if isinstance(ask, Likelihood):
                raise NoLikelihood("words only")
            return Answer(text="Rome")
            yield

    class Editor(fakes.Overwrite):
        def edited(self, session, edits):
            return Words(session)

    return Editor()


# --- what metrics ask of every model ---------------------------------------------------------------------


def test_metric_requests_are_sent_once_to_each_model(fakes, tmp_path):
    folder, end = finished(asking(fakes, fakes.make_job(6, plan=Plan(size=2))), tmp_path)
    lines = records(folder, Probed)
    assert [(line.batch, line.phase) for line in lines] == [
        ("base", "before"), ("batch-1", "after"), ("batch-2", "after"), ("batch-3", "after"),
    ]  # fmt: skip
    assert {reply for line in lines for reply in line.replies.values()} == {Scored(logprobs=(-14.0,), tokens=(2,))}
    found = {(score.aspect, score.phase): score for score in end.scores if score.metric == "weather"}
    assert {key: (score.value, score.n) for key, score in found.items() if key[0] == "nll"} == {
        ("nll", "before"): (14.0, 1),
        ("nll", "after"): (14.0, 3),
    }
    assert found["nll", "before"].note == "one model, no interval"
    assert (found["seconds", "after"].measure, found["nll", "after"].measure) == ("s", "")
    assert {score.measure for score in end.scores if score.metric == "share"} == {"fraction"}


@pytest.mark.parametrize("evaluate", [None, 1])
def test_metrics_of_sequential_runs_use_the_last_model(fakes, tmp_path, evaluate):
    """The steps are one growing model: they are not averaged, and unevaluated steps are not missing values."""
    plan = Plan(size=2, sequential=True, eval_every=evaluate)
    _folder, end = finished(asking(fakes, fakes.make_job(6, plan=plan)), tmp_path)
    nll = {score.phase: score for score in end.scores if score.aspect == "nll" and not score.tags}
    assert (nll["after"].n, nll["after"].skipped, nll["after"].interval) == (1, 0, None)
    steps = {score.tags["edits made"]: score.n for score in end.scores if score.aspect == "nll" and score.tags}
    assert steps == ({"2": 1, "4": 1, "6": 1} if evaluate else {"6": 1})


def test_metric_requests_change_no_other_reply_or_score(fakes, tmp_path):
    plain, one = finished(fakes.make_job(4), tmp_path / "plain")
    more, other = finished(asking(fakes, fakes.make_job(4)), tmp_path / "more")
    said = [[timeless(line) for line in records(folder, Replied)] for folder in (plain, more)]
    assert said[0] == said[1]
    assert [score for score in other.scores if score.metric == "share"] == list(one.scores)


def test_metric_requests_reach_the_edited_model(fakes, tmp_path):
    job = asking(fakes, fakes.make_job(2))
    seen = []
    plain = job.session.model.score
    job.session.model.score = lambda asked: (
        seen.append(sorted(set(job.session.model.weights.values()))),
        plain(asked),
    )[1]
    finished(job, tmp_path)
    assert seen == [["Paris"], ["Paris", "Rome"], ["Paris", "Rome"]]


def test_metric_requests_resume_from_records_truncated_at_any_byte(fakes, tmp_path):
    def job():
        cases = tuple(scored_tower(fakes, n) for n in range(1, 5))
        return asking(fakes, fakes.make_job(cases=cases, plan=Plan(size=2)))

    whole, _end = finished(job(), tmp_path / "whole")
    content = (whole.path / "records.jsonl").read_bytes()
    wanted = sorted(map(timeless, whole.read()))
    for n, at in enumerate(range(0, len(content), len(content) // 25)):
        folder = RunFolder.create(tmp_path / str(n), job().spec)
        (folder.path / "records.jsonl").write_bytes(content[:at])
        evaluate(job(), folder)
        assert sorted(map(timeless, folder.read())) == wanted, f"cut at byte {at}"


def timeless(record):
    if isinstance(record, Batch):
        return str((record.batch, record.cases, record.edits))
    if isinstance(record, Replied):
        return str(evolve(record, seconds=0.0, memory=Peak()))
    return str(evolve(record, seconds=0.0) if isinstance(record, Probed) else record)


def test_a_finished_run_started_again_edits_nothing(fakes, tmp_path):
    refused = frozenset({fakes.tower(2).edits[0].id})
    finished(asking(fakes, fakes.make_job(3, fakes.Overwrite(refuses=refused))), tmp_path)
    again = asking(fakes, fakes.make_job(3, fakes.Overwrite(refuses=refused)))
    finished(again, tmp_path)
    assert again.session.model.log == []


def test_models_whose_edits_failed_are_missing_values_with_a_reason(fakes, tmp_path):
    refused = frozenset({fakes.tower(1).edits[0].id})
    _folder, end = finished(asking(fakes, fakes.make_job(2, fakes.Overwrite(refuses=refused))), tmp_path / "refused")
    (score,) = [score for score in end.scores if (score.aspect, score.phase) == ("nll", "after")]
    assert (score.n, dict(score.skipped_because)) == (1, {"no edit of the batch can be made": 1})
    folder, end = finished(asking(fakes, fakes.make_job(2, fakes.Overwrite("fails"))), tmp_path / "failed")
    (score,) = [score for score in end.scores if (score.aspect, score.phase) == ("nll", "after")]
    assert (score.n, score.skipped) == (0, 2)
    assert {batch.failed for batch in records(folder, Batch)} == {"the update is larger than the weight"}


def test_a_dead_server_stops_the_run_during_metric_requests(fakes, tmp_path):
    gone = Failure(error="ServerGone", message="gone")
    editor = fakes.Notes([], lambda ask: gone if isinstance(ask, Likelihood) else Answer(text="Rome"))
    job = fakes.make_job(LIMIT + 1, editor, editor_spec=fakes.NOTES, plan=Plan(size=1))
    _folder, end = finished(asking(fakes, evolve(job, cases=job.cases[:2], groups=job.groups[:2])), tmp_path / "two")
    assert end.failures == 2
    many = evolve(PASSAGE, query="again")
    twelve = tuple(evolve(many, query=f"again-{n}") for n in range(12))
    wide = asking(fakes, job)
    wide = evolve(wide, measures=(*job.measures, evolve(wide.measures[-1], requests=twelve)))
    with pytest.raises(TooManyFailures):
        finished(wide, tmp_path / "many")


def test_metric_requests_that_met_a_dead_server_are_sent_again(fakes, tmp_path):
    down = Failure(error="ServerDown", message="gone")
    editor = fakes.Notes([], lambda ask: down if isinstance(ask, Likelihood) else Answer(text="Rome"))
    job = asking(fakes, fakes.make_job(2, editor, editor_spec=fakes.NOTES, plan=Plan(size=1)))
    folder, end = finished(job, tmp_path)
    assert end.failures == tally_of(folder).failed == 2
    well = fakes.Notes([], lambda _ask: Scored(logprobs=(-1.0,), tokens=(1,)))
    _folder, end = finished(
        asking(fakes, fakes.make_job(2, well, editor_spec=fakes.NOTES, plan=Plan(size=1))), tmp_path
    )
    assert [type(ask) for asks in well.seen for ask in asks] == [Likelihood] * 2
    assert end.failures == tally_of(folder).failed == 0
    (score,) = [score for score in end.scores if (score.aspect, score.phase) == ("nll", "after")]
    assert (score.n, score.skipped) == (2, 0)


def test_metric_requests_without_distinct_queries_raise_plugin_broken(fakes):
    for asks in ((PASSAGE, PASSAGE), (evolve(PASSAGE, query=""),)):
        chosen = type("Chosen", (), {"spec": spec_of(fakes, requests=lambda _config, asks=asks: asks), "config": None})
        with pytest.raises(PluginBroken, match="metric weather has requests without a query of their own"):
            requests_of(chosen)


def test_metrics_without_requests_do_not_change_the_run_id(fakes):
    spec = fakes.make_job(2).spec
    assert "requests" not in to_json(spec)
    asked = asking(fakes, fakes.make_job(2)).spec
    assert asked.id != spec.id
    for one in (spec, asked):
        assert from_json(json.loads(json.dumps(to_json(one))), RunSpec, of="spec") == one


# --- what an edit takes ----------------------------------------------------------------------------------


def test_the_first_batch_of_a_process_is_marked(fakes, tmp_path):
    folder, _end = finished(fakes.make_job(3), tmp_path)
    assert [batch.first for batch in records(folder, Batch)] == [True, False, False]


def test_forward_calls_of_an_edit_are_recorded_if_known(fakes, tmp_path):
    folder, _end = finished(fakes.make_job(2), tmp_path / "silent")
    assert {batch.passes for batch in records(folder, Batch)} == {None}
    assert all("passes" not in line for line in (folder.path / "records.jsonl").read_text().splitlines())
    job, counts = fakes.make_job(2), iter(range(0, 1000, 3))
    job.session.model.passes = lambda: ForwardCalls(passes=(at := next(counts)), tokens=10 * at)
    folder, _end = finished(job, tmp_path / "telling")
    assert {batch.passes for batch in records(folder, Batch)} == {ForwardCalls(passes=3, tokens=30)}


@pytest.mark.skipif(resident() is None, reason="this system does not say how much memory is in use")
def test_memory_of_answering_is_recorded_and_the_peak_counts(fakes, tmp_path):
    job = fakes.make_job(2)
    folder, _end = finished(job, tmp_path)
    assert all(line.memory.host is not None for line in records(folder, Replied))
    of = {
        name: max(line.memory.host for line in records(folder, Replied) if line.batch == name)
        for name in ("batch-1", "batch-2")
    }
    (measure,) = job.measures
    memory = {}
    for line in records(folder, Replied):
        memory[line.batch] = highest(memory.get(line.batch, Peak()), line.memory)
    found = models(read(folder), measure, memory)
    assert {one.batch: one.answering.host for one in found} == of


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Peak(), Peak(), Peak()),
        (Peak(host=1), Peak(host=3), Peak(host=3)),
        (Peak(host=1, device=9), Peak(host=3), Peak(host=3, device=9)),
        (Peak(host=2, device=1), Peak(device=4), Peak(host=2, device=4)),
    ],
)
def test_the_higher_rise_is_taken_for_each_kind_of_memory(one, other, both):
    assert highest(one, other) == highest(other, one) == both


@pytest.mark.skipif(resident() is None, reason="this system does not say how much memory is in use")
def test_a_meter_measures_only_its_own_block():
    megabyte = 2**20
    rises = []
    gc.collect()  # so that garbage of other tests is not freed in the meantime
    for size in (64, 8, 32):
        with measured_phase("x", object()) as meter:
            held = bytearray(size * megabyte)
            held[::4096] = b"x" * len(held[::4096])
            time.sleep(0.02)
            del held
        rises.append(meter.rise.host / megabyte)
    assert rises == pytest.approx([64, 8, 32], abs=4)
    assert meter.rise.device is None


def test_a_meter_measures_the_devices_of_the_model():
    class Device:
        started = 0

        def start(self):
            self.started += 1

        def rise(self):
            return 7 * self.started

        peak = rise

    class Model:
        def device_meter(self):
            return Device()

    with measured_phase("x", Model()) as meter:
        pass
    assert meter.rise.device == 7
