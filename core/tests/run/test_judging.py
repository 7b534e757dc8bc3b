"""The input of judges, and judging that resumes."""

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.runner import judging
from ke_core.runner.evaluate import ask_models
from ke_core.runner.judging import held, judge_items, judge_run
from ke_core.runner.run import OpenJudge
from ke_core.spec.errors import KEError
from ke_core.spec.facts import Entity, Fact, Relation
from ke_core.spec.records import Judged
from ke_core.spec.results import Failure, Finding, Item, Judgment, Scored, Verdict
from ke_core.spec.runspec import ModelRef
from ke_testing.fakes import ScriptedModel, make_session

PARIS, ROME, TOWER = Entity(label="Paris"), Entity(label="Rome"), Entity(label="Tower 1")


class Asker:
    """Fails at the item numbered ``at``."""

    def __init__(self, at=-1):
        self.at = at
        self.seen = []

    def judge(self, session, items):
        assert session is not None
        for item in items:
            if len(self.seen) == self.at:
                raise KEError("the judge's model failed", hint="again")
            self.seen.append(item)
        return [Judgment(verdict=Verdict.UNSURE, findings=(Finding(item="a", label="b", note="c"),)) for _ in items]


@pytest.fixture
def evaluated(fakes, tmp_path):
    job = fakes.make_job(4)
    folder = RunFolder.create(tmp_path, job.spec)
    ask_models(job, folder)
    return job, folder


def lines(folder):
    return [record for record in folder.read() if isinstance(record, Judged)]


def test_judging_resumes_after_a_failure_of_the_judge_model(fakes, evaluated, monkeypatch):
    monkeypatch.setattr(judging, "FEW", 2)
    job, folder = evaluated
    component = evolve(fakes.component("asker"), model=ModelRef(source="fake", id="m"))
    session = make_session(ScriptedModel([]))
    with pytest.raises(KEError, match="model failed"):
        judge_run(folder, job.cases, OpenJudge(judge=Asker(at=9), component=component, session=session))
    kept = len(lines(folder))
    assert 0 < kept < 16
    whole = Asker()
    assert judge_run(folder, job.cases, OpenJudge(judge=whole, component=component, session=session)) == 16 - kept
    assert len(lines(folder)) == 16
    assert judge_run(folder, job.cases, OpenJudge(judge=Asker(at=0), component=component, session=session)) == 0


def test_judge_notes_and_models_are_recorded(fakes, evaluated):
    job, folder = evaluated
    component = evolve(fakes.component("asker"), model=ModelRef(source="fake", id="m", digest="1" * 64))
    judge_run(folder, job.cases, OpenJudge(judge=Asker(), component=component, session=make_session(ScriptedModel([]))))
    assert all(line.judge == component for line in lines(folder))
    assert all(f.note == "c" for line in lines(folder) for j in line.judgments.values() for f in j.findings)


def test_judges_with_different_models_are_different(fakes, evaluated):
    job, folder = evaluated
    session = make_session(ScriptedModel([]))
    for name in ("m", "n"):
        component = evolve(fakes.component("asker"), model=ModelRef(source="fake", id=name))
        assert judge_run(folder, job.cases, OpenJudge(judge=Asker(), component=component, session=session)) == 16


def test_facts_for_judges_depend_on_phase_and_edits(fakes):
    case = fakes.tower(1)
    assert held(case, "after", edited=True) == ("Tower 1 is located in Rome",)
    assert held(case, "before", edited=True) == held(case, "after", edited=False) == ("Tower 1 is located in Paris",)


def test_facts_for_judges_use_sentences_of_the_file_first(fakes):
    place = Relation(label="stands in")
    texts = tuple(
        Fact(subject=TOWER, relation=place, objects=(city,), text=text)
        for city, text in ((PARIS, "Tower 1 stands in Paris."), (ROME, ""))
    )
    case = evolve(fakes.tower(1), facts_before=texts[:1], facts_after=texts)
    assert held(case, "before", edited=True)[0] == "Tower 1 stands in Paris."
    assert held(case, "after", edited=True) == (
        "Tower 1 is located in Rome",
        "Tower 1 stands in Paris.",
        "Tower 1, stands in: Rome",
    )


def test_sentences_for_judges_replace_edits_and_facts(fakes):
    case = evolve(fakes.tower(1), sentences_before=("Old. ", "Both."), sentences_after=("New.", "Both.", "New."))
    assert held(case, "after", edited=True) == ("New.", "Both.")
    assert held(case, "before", edited=True) == held(case, "after", edited=False) == ("Old.", "Both.")


@pytest.mark.parametrize(("scored", "seen"), [(False, 0), (True, 1)])
def test_only_scored_judges_get_log_probabilities(fakes, scored, seen):
    asker = Asker()
    query = fakes.tower(1).probes[0].queries[0]
    items = [
        Item(query=query, reply=Scored(logprobs=(-1.0,), tokens=(1,))),
        Item(query=query, reply=Failure(error="NoLikelihood", message="none")),
        Item(query=query, reply=Failure(error="Gone", message="gone")),
    ]
    found = judge_items(
        OpenJudge(judge=asker, component=fakes.component("a"), session=make_session(ScriptedModel([])), scored=scored),
        items,
    )
    assert len(asker.seen) == seen
    assert [one.verdict for one in found] == [Verdict.UNSURE, Verdict.UNSURE, Verdict.WRONG]
