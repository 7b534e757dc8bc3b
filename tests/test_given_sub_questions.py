"""Method, dataset and metric together: with sub-questions and answers given, only retrieving and weighing are left."""

from __future__ import annotations

from itertools import islice

from ke_core.data.queries import Case
from ke_core.data.results import Answer, CaseRecord, Judgement, Outcome, Verdict
from ke_core.run.asks import Asker
from ke_core.testing.fakes import ScriptedModel, make_session
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_plugin_multi_hop.metric import MultiHop

DATASET = Atlas(config=AtlasConfig())


def weighing(prompt: str) -> str:
    """What a model that reads would write: a fact that differs from the answer in its last words contradicts it."""
    said, fact = (line.split(": ", 1)[1].removesuffix(".") for line in prompt.strip().split("\n")[-2:])
    for sentence in (fact, said):  # everything up to the object is the cloze that both share
        for query in HOPS:
            if sentence.startswith(f"{query} ") and said.startswith(f"{query} "):
                return f"so the answer here is: {sentence.removeprefix(f'{query} ').removeprefix('the ')}"
    return "I cannot say"


CASES: list[Case] = list(islice(DATASET.cases(), 20))
HOPS = {hop.cloze for case in CASES for probe in case.probes for q in probe.queries for hop in (q.hops or (q,))}


def records(**options: str) -> list[CaseRecord]:
    model = ScriptedModel(weighing)
    bank = {edit.id: edit for case in CASES for edit in case.edits}
    session = make_session(model, material=DATASET.material())
    asker = Asker(dataset=DATASET, styles=("direct",), edited_form="question", own_prompt=True)
    found = []
    with Mello(config=MelloConfig(decomposition="oracle", **options)).edit(session, list(bank.values())) as edited:
        for case in CASES:
            (unit,) = asker.after(case, bank, edited=True)
            replies = edited.answer(unit.questions)
            outcomes = {
                ("after", "own", ask.query): Outcome(reply=reply, judgement=Judgement(verdict=Verdict.WRONG))
                for ask, reply in zip(unit.questions, replies, strict=True)
            }
            found.append(CaseRecord(case=case, batch="1", outcomes=outcomes))
    return found


def test_a_model_that_weighs_well_is_right_on_every_hop_whose_edit_is_retrieved() -> None:
    seen: dict[str, list[float]] = {}
    for record in records():
        assert all(isinstance(outcome.reply, Answer) for outcome in record.outcomes.values())
        for value in MultiHop().values(record):
            if value.value is not None:
                seen.setdefault(value.aspect, []).append(value.value)
    assert set(seen["edit-weighed"]) == {1.0}
    assert len(seen["edit-weighed"]) > 60
    assert sum(seen["hops-answered"]) / len(seen["hops-answered"]) > 0.95
