"""Retrieval accuracy (MQuAKE, Table 14) of a run of gwalk: the metric multi-hop reads its steps.

The scripted model decomposes every question as the benchmark does and knows the unedited world. The graph retrieves
edits and hides them from controls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from ke_core.plugin import Answer, Edit, Query, distinct
from ke_core.spec.facts import EditBank, contradicting
from ke_core.spec.queries import Case
from ke_core.spec.requests import Question
from ke_core.spec.results import CaseRecord, Judgment, Outcome, Verdict
from ke_plugin_atlas.cases import cases
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.editor import Gwalk
from ke_plugin_multi_hop.metric import MultiHop
from ke_plugin_multi_hop.retrieval import Retrieval
from ke_testing.examples import question
from ke_testing.fakes import ScriptedModel, make_session

SOME = cases()[:40]


def asked(case: Case) -> Iterator[Query]:
    """Return the queries to the edited model."""
    yield from {q.id: q for probe in case.probes if probe.asked("after") for q in probe.queries}.values()


def facts_of(case: Case, query: Query):
    """Return the benchmark's chain of a query after editing."""
    if query.hops:
        return case.facts_after
    return [fact for fact in case.facts_after if query.cloze and fact.text.startswith(query.cloze)][:1]


def perfect(found: tuple[Case, ...]) -> ScriptedModel:
    """Names the first subject and the relations of every question, and knows the unedited hops."""
    start, path, world = {}, {}, {}
    for case in found:
        for fact in (*case.facts_after, *case.facts_before):
            asks = (fact.relation.question or "{}").replace("{}", fact.subject.label)
            world.setdefault(asks, fact.objects[0].label)
        for query in asked(case):
            chain = facts_of(case, query)
            start[query.texts[0]] = chain[0].subject.label
            path[query.texts[0]] = "->".join(f"({fact.relation.label})" for fact in chain) + "->answer"

    def answer(prompt: str) -> str:
        lines = prompt.rsplit("\n\n", 1)[1].splitlines()
        text = lines[0].removeprefix("Question: ")
        if lines[-1] == "Subject:":
            return f" [{start[text]}]"
        if lines[-1].startswith("Path:"):
            return path[text]
        return f" It is {{}}. {world[lines[-2].removeprefix('Subquestion: ')]}"

    return ScriptedModel(answer)


def run(found: tuple[Case, ...], edits: tuple[Edit, ...], *, mask: bool) -> dict[str, list[float]]:
    """Return the metric's values over all cases, edited together."""
    bank = EditBank(edits)
    questions: list[Question] = []
    for case in found:
        hidden = contradicting(case.facts_after, bank) if mask else frozenset()
        own = tuple(edit.id for edit in case.edits)
        questions += [
            question(query.texts[0], own=own, hidden=hidden, name=f"{case.id}/{query.id}") for query in asked(case)
        ]
    with Gwalk(config=GwalkConfig(threshold="0.9")).edit(make_session(perfect(found)), edits) as edited:
        replies = dict(zip((ask.query for ask in questions), edited.answer(questions), strict=True))
    values: dict[str, list[float]] = defaultdict(list)
    for case in found:
        outcomes = {}
        for query in asked(case):
            reply = replies[f"{case.id}/{query.id}"]
            assert isinstance(reply, Answer)
            right = reply.text in {name for entity in query.gold.entities for name in entity.names}
            verdict = Judgment(verdict=Verdict.RIGHT if right else Verdict.WRONG)
            outcomes["after", "own", query.id] = Outcome(reply=reply, judgment=verdict)
        record = CaseRecord(case=case, batch="b", outcomes=outcomes)
        for value in (*MultiHop().values(record), *Retrieval().values(record)):
            if value.value is not None and value.phase == "after":
                values[value.aspect].append(value.value)
    return values


@pytest.mark.parametrize("mask", [False, True])
def test_every_edit_on_the_path_is_retrieved_and_counted(mask) -> None:
    edits = distinct(edit for case in SOME for edit in case.edits)
    values = run(SOME, edits, mask=mask)
    assert len(values["retrieval"]) == len(SOME)
    assert set(values["retrieval"]) == set(values["edit-retrieval"]) == set(values["edit-wise"]) == {1.0}
    assert len(values["edit-retrieval"]) == sum(len(case.edits) for case in SOME)


def test_a_missing_edit_is_not_retrieved() -> None:
    edits = distinct(edit for case in SOME[1:] for edit in case.edits)
    gone = {edit.id for edit in SOME[0].edits} - {edit.id for edit in edits}
    assert gone, "the first case shares all of its edits: take another"
    values = run(SOME, edits, mask=False)
    assert values["retrieval"][0] == 0
    assert set(values["retrieval"]) == {0, 1}
