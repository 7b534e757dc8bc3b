"""Retrieval accuracy (MQuAKE, Table 14) of every memory editor: the metric reads the steps of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from ke_core.plugin import EFFICACY, Edit
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.results import Answer, CaseRecord, Judgment, Outcome, Verdict
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.editor import DeepEdit
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.editor import Gwalk
from ke_plugin_ice import IceConfig
from ke_plugin_ice.editor import Ice
from ke_plugin_ike import IkeConfig
from ke_plugin_ike.editor import Ike
from ke_plugin_input_aug import InputAugConfig
from ke_plugin_input_aug.editor import InputAug
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_plugin_multi_hop.retrieval import Retrieval
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, PARIS, ROME, city_edit, question
from ke_testing.fakes import ScriptedModel, make_session

MOVE_ROME = city_edit(ROME, PARIS, MADRID)
EDITS = (MOVE_TOWER, MOVE_ROME)
CHAIN = "In which city is the city of Eiffel Tower?"
SUBJECTS = {CHAIN: "Eiffel Tower", "In which city is Eiffel Tower?": "Eiffel Tower", "In which city is Rome?": "Rome"}
SUBQUESTIONS = {asked: [asked] for asked in SUBJECTS} | {CHAIN: [*SUBJECTS][1:]}
OBJECTS = {"Eiffel Tower": "Rome", "Rome": "Madrid"}


def query(name: str, text: str, edit: Edit, hops: tuple[Query, ...] = ()) -> Query:
    assert edit.after is not None
    return Query(id=name, texts=(text,), gold=Gold(entities=edit.after.objects), edit=edit.id, hops=hops)


HOPS = tuple(query(f"hop-{n}", edit.question or "", edit) for n, edit in enumerate(EDITS))
MULTI = query("multi", CHAIN, MOVE_ROME, HOPS)
CASE = Case(
    id="case",
    edits=EDITS,
    probes=(
        *(Probe(id=hop.id, aspect=EFFICACY, queries=(hop,), edits=(hop.edit or "",)) for hop in HOPS),
        Probe(id="multi", aspect="multi-hop", queries=(MULTI,)),
    ),
)


def takes_apart(prompt: str) -> str:
    """Return a turn of MeLLo or PokeMQA: the current entity, and the next sub-question or the end."""
    asked, *said = prompt.rpartition("Question: ")[2].split("\nSubquestion: ")
    left = SUBQUESTIONS[asked.strip()][len(said) :]
    reached = OBJECTS[SUBJECTS[said[-1].split("\n")[0]]] if said else ""
    weighed = f"\nSo the answer here is: {reached}" if said else ""
    return (
        f"{weighed}\nSubquestion: {left[0]}\nGenerated answer: Oslo" if left else f"{weighed}\nFinal answer: {reached}"
    )


def walks(prompt: str) -> str:
    asked, last = (line.partition(": ")[2] for line in prompt.rsplit("\n\n", 1)[1].splitlines())
    return "(located in the city)->" * len(SUBQUESTIONS[asked]) + "answer" if last else f" [{SUBJECTS[asked]}]"


def thinks(prompt: str) -> str:
    first, *more = (line.partition(": ")[2] or line for line in prompt.rsplit("\n\n", 1)[1].splitlines())
    if more[0].startswith("Starts"):
        return f" {SUBJECTS[first]}"
    if prompt.endswith("?"):
        return " no"
    if prompt.rpartition("\n")[2].startswith(("Named", "Without")):
        head, _in, tail = more[0].rpartition(" in ")
        return f" {tail}" if prompt.rpartition("\n")[2].startswith("Named") else f" {head} in"
    done = more[0].count(".#")
    left = SUBQUESTIONS[first][done:]
    return f" {SUBJECTS[left[0]]} is located in Oslo.#" if left else " So the answer is there.\n"


def says(_prompt: str) -> str:
    return " Madrid"


METHODS: dict[str, Any] = {
    "mello": (takes_apart, Mello(config=MelloConfig())),
    "pokemqa": (takes_apart, Pokemqa(PokemqaConfig(detector="nearest", threshold=0.4))),
    "gwalk": (walks, Gwalk(config=GwalkConfig(threshold="0.5"))),
    "deepedit": (thinks, DeepEdit(config=DeepEditConfig())),
    "ice": (says, Ice(config=IceConfig(facts="retrieved", k=2))),
    "ike": (says, Ike(config=IkeConfig(top=2))),
    "input-aug": (says, InputAug(config=InputAugConfig(facts="retrieved", k=2))),
}
BY_HOPS = ("mello", "pokemqa", "gwalk", "deepedit")


def values(method: str, edits: tuple[Edit, ...], *, hidden: frozenset[str] = frozenset()) -> dict[str, list[float]]:
    """Return the metric's values for retrieval and for hops."""
    model, editor = METHODS[method]
    own = tuple(edit.id for edit in EDITS)
    asks = [question(one.texts[0], own=own, hidden=hidden, name=one.id) for one in (*HOPS, MULTI)]
    with editor.edit(make_session(ScriptedModel(model)), edits) as edited:
        replies = edited.answer(asks)
    for reply in replies:
        assert isinstance(reply, Answer), reply
        assert reply.outcome == "answered"
    wrong = Judgment(verdict=Verdict.WRONG)
    outcomes = {
        ("after", "own", ask.query): Outcome(reply=reply, judgment=wrong)
        for ask, reply in zip(asks, replies, strict=True)
    }
    found: dict[str, list[float]] = {}
    for value in Retrieval().values(CaseRecord(case=CASE, batch="b", outcomes=outcomes)):
        if value.value is not None and value.phase == "after":
            found.setdefault(value.aspect, []).append(value.value)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_retrieved_edits_are_counted(method: str) -> None:
    found = values(method, (*EDITS, MOVE_GATE))
    assert found["edit-retrieval"] == [1.0, 1.0]
    assert found["retrieval"] == [1.0]
    if method in BY_HOPS:
        assert found["hops-answered"] == [1.0]
        assert found["used-if-retrieved"] == [1.0, 1.0]
    else:
        assert "hops-answered" not in found


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("gwalk", "deepedit")])
def test_hidden_edits_are_not_retrieved_and_count_as_missed(method: str) -> None:
    found = values(method, (*EDITS, MOVE_GATE), hidden=frozenset({MOVE_ROME.id}))
    assert found["edit-retrieval"] == [1.0, 0.0]
    assert found["retrieval"] == [0.0]
