"""Memory editors with given sub-questions and answers, where only retrieval and choice are left to the method.

The scripted models know nothing. They use a fact that fits the question, and otherwise the given answer.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from itertools import islice
from typing import Any

import pytest

from ke_core.plugin import SUB_QUESTIONS, BadConfig
from ke_core.runner.requests import RequestBuilder
from ke_core.spec.queries import Case, Query
from ke_core.spec.results import Answer, CaseRecord, Judgment, Outcome, Verdict
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.editor import DeepEdit
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.editor import Gwalk
from ke_plugin_ike import IkeConfig
from ke_plugin_ike.editor import Ike
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_plugin_multi_hop.retrieval import Retrieval
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.dataset import build_dataset
from ke_testing.fakes import ScriptedModel, make_session

DATASET = Atlas(config=AtlasConfig())
CASES: list[Case] = list(islice(DATASET.cases(), 20))
HOPS: dict[str, Query] = {
    hop.texts[0]: hop
    for case in CASES for probe in case.probes for query in probe.queries
    for hop in (query.hops or (query,)) if hop.cloze
}  # fmt: skip
FACTS = {
    question: fact
    for case in CASES for fact in (*case.facts_before, *case.facts_after)
    for question, hop in HOPS.items() if fact.text.startswith(f"{hop.cloze} ")
}  # fmt: skip


def about(sentence: str) -> str:
    """Return the part of a sentence before its object."""
    return max((hop.cloze for hop in HOPS.values() if sentence.startswith(f"{hop.cloze} ")), key=len, default="")


def object_of(sentence: str) -> str:
    return sentence.removeprefix(f"{about(sentence)} ").removeprefix("the ").removesuffix(".")


def mello(prompt: str) -> str:
    said, fact = (line.split(": ", 1)[1] for line in prompt.strip().split("\n")[-2:])
    return f"so the answer here is: {object_of(fact if about(fact) == about(said) else said)}"


def pokemqa(prompt: str) -> str:
    return f"So the entity reached is: {object_of(prompt.strip().rpartition(': ')[2])}"


def ike(prompt: str) -> str:
    known, last = prompt.split("\n\n")[-2:]
    *facts, text = (line.partition(": ")[2] for line in last.split("\n"))
    told = [fact for fact in facts if about(fact) == HOPS[text].cloze]
    return f" {object_of(told[0])}" if told else known.removeprefix(f"Text: {text}")


def gwalk(prompt: str) -> str:
    lines = prompt.rsplit("\n\n", 1)[1].splitlines()
    fact = FACTS[lines[0].removeprefix("Question: ")]
    return f" [{fact.subject.label}]" if lines[-1] == "Subject:" else f"({fact.relation.label})->answer"


def deepedit(prompt: str) -> str:
    first, second, *asked = (line.partition(": ")[2] or line for line in prompt.rsplit("\n\n", 1)[1].splitlines())
    if not asked:  # the start entity of a question, or whether a sentence names it
        return f" {FACTS[first].subject.label}" if first in FACTS else " no"
    if asked[0].startswith("Named"):
        return f" {object_of(second)}"
    return " yes" if about(first) == about(second) else " no"


METHODS: dict[str, Any] = {
    "mello": (mello, Mello(config=MelloConfig(decomposition="oracle"))),
    "pokemqa": (pokemqa, Pokemqa(PokemqaConfig(decomposition="oracle", detector="nearest", threshold=0.8))),
    "gwalk": (gwalk, Gwalk(config=GwalkConfig(decomposition="oracle", threshold="0.9"))),
    "deepedit": (deepedit, DeepEdit(config=DeepEditConfig(decomposition="oracle"))),
    "ike": (ike, Ike(config=IkeConfig(decomposition="oracle"))),
}


def records(method: str) -> list[CaseRecord]:
    reads, editor = METHODS[method]
    bank = {edit.id: edit for case in CASES for edit in case.edits}
    session = make_session(ScriptedModel(reads), material=DATASET.material())
    asker = RequestBuilder(dataset=DATASET, styles=("direct",), edited_form="question", own_prompt=True)
    found = []
    with editor.edit(session, list(bank.values())) as edited:
        for case in CASES:
            (unit,) = asker.after(case, bank, edited=True)
            replies = edited.answer(unit.questions)
            outcomes = {
                ("after", "own", ask.query): Outcome(reply=reply, judgment=Judgment(verdict=Verdict.WRONG))
                for ask, reply in zip(unit.questions, replies, strict=True)
            }
            found.append(CaseRecord(case=case, batch="1", outcomes=outcomes))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_hops_with_retrieved_edits_are_answered_correctly(method: str) -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    for record in records(method):
        for outcome in record.outcomes.values():
            assert isinstance(outcome.reply, Answer), outcome.reply
        for value in Retrieval().values(record):
            if value.value is not None:
                seen[value.aspect].append(value.value)
    assert set(seen["used-if-retrieved"]) == {1.0}
    assert len(seen["used-if-retrieved"]) > 50
    if method in (
        "mello",
        "gwalk",
        "ike",
    ):  # deepedit uses any fact that names the hop's entity, and a detector makes mistakes
        assert sum(seen["hops-answered"]) / len(seen["hops-answered"]) > 0.95
    assert len(seen["retrieval"]) == len(CASES)


@pytest.mark.parametrize("name", ["akew", "knowedit", "mzsre", "qaedit", "uniedit", "unkebench", "wikibigedit"])
def test_datasets_without_pre_edit_answers_have_no_sub_questions(name: str) -> None:
    assert SUB_QUESTIONS not in build_dataset(f"{name}-atlas").material()


@pytest.mark.parametrize("method", METHODS)
def test_sub_questions_are_declared_as_gold_material_and_required(method: str) -> None:
    _reads, editor = METHODS[method]
    (spec,) = import_module(f"ke_plugin_{method}").ke_editors()
    assert spec.oracle(spec.config()) == ()
    assert spec.oracle(editor.config) == (SUB_QUESTIONS,)
    with (
        pytest.raises(BadConfig, match=rf"{method}\.decomposition=oracle: this dataset has no sub-questions"),
        editor.edit(make_session(ScriptedModel([])), []),
    ):
        pass
