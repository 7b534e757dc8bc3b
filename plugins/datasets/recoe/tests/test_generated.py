"""The paper's construction with a scripted model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks import building
from ke_benchmarks.building import BuildRequest
from ke_benchmarks.graph import BuildTools
from ke_core.app import BatchingEngine, ModelChoice, installed_catalog
from ke_core.plugin import BadConfig, BadData, Case
from ke_plugin_recoe import RecoeBuild
from ke_plugin_recoe.builder import RecoeBuilder
from ke_plugin_recoe.construction import INCONSISTENT
from ke_plugin_recoe.records import RecoeRecord
from ke_testing.fakes import ScriptedModel, SilentProgress

RIVER = {"question": "Which is longer, the Ouda or the Wael?", "answer": "Ouda", "scheme": "superlative"}
LEGS = {"question": "How many legs do a crab and a bee have together?", "answer": "16", "scheme": "aggregation"}


def last(prompt: str, name: str) -> str:
    return re.findall(rf"^{name}: (.*)$", prompt, re.MULTILINE)[-1]


def model(**changed: Callable[[str], str]) -> Callable[[str], str]:
    """Return a model of two rivers and two animals. ``changed``: other answers, by the last words of the prompt."""
    lengths = {"Ouda": 900, "Wael": 700}

    def answer(prompt: str) -> str:
        facts = last(prompt, "Facts")
        numbers = [int(n) for n in re.findall(r"\d+", facts)]
        if "legs" in facts:
            return str(sum(numbers))
        return max(re.findall(r"The (\w+) is (\d+) km", facts), key=lambda found: int(found[1]))[0]

    def facts(prompt: str) -> str:
        name = prompt.rpartition("about ")[2].removesuffix(":")
        return f"- The {name} is {lengths[name]} km long."

    def atoms(prompt: str) -> str:
        sentence = last(prompt, "Sentence")
        subject = re.sub(r"^(The|A) ", "", sentence).split(" ")[0]
        return f"{sentence} | ({subject}; says; {sentence.removesuffix('.')})"

    told: dict[str, Callable[[str], str]] = {
        "Wrong answer": lambda prompt: "Wael" if "Ouda" in prompt else "18",
        "Sentences about": facts,
        "Sentences": lambda _prompt: "A crab has 10 legs.\nA bee has 6 legs.",
        "True sentence": lambda prompt: last(prompt, "Sentence"),
        "Answer": answer,
        "Changed sentences": lambda _prompt: "A crab has 12 legs.\nA bee has 6 legs.",
        "Statements": atoms,
        "Other names": lambda prompt: "none" if last(prompt, "Answer").isdecimal() else "the big one; none",
        "Sentence": lambda prompt: f"They have {last(prompt, 'Answer')} legs together.",
    }
    told |= {name.replace("_", " "): said for name, said in changed.items()}

    def says(prompt: str) -> str:
        heading = prompt.splitlines()[-1].removesuffix(":")
        key = "Sentences about" if heading.startswith("Sentences about") else heading
        return " " + told[key](prompt)

    return says


def write(tmp_path: Path, *items: Mapping[str, Any]) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


def made(path: Path, says: Callable[[str], str], why: Counter[str] | None = None) -> list[Mapping[str, Any]]:
    engine, why = BatchingEngine(ScriptedModel(says)), Counter() if why is None else why
    tools = BuildTools(run=engine.run, dropped=lambda reason: why.update([reason]))
    return list(RecoeBuilder(config=RecoeBuild(), words={}).from_questions(path, tools))


def test_facts_of_two_choices_are_swapped(tmp_path: Path, own: Callable[..., Any]) -> None:
    records = made(write(tmp_path, RIVER), model())
    (record,) = records
    assert record["counterfactual_answer"] == "Wael"
    turned = record["counterfactuals_per_choice"]
    assert turned["choice_1_counterfactuals"][0]["fact"] == "The Ouda is 700 km long."
    assert turned["choice_2_counterfactuals"][0]["atomic_triples"] == ("(Wael; says; The Wael is 900 km long)",)
    assert record["answer_alias"] == ("the big one",)
    cases: list[Case] = list(own(*records).cases())
    assert [edit.statement for edit in cases[0].edits] == ["The Ouda is 700 km long.", "The Wael is 900 km long."]


def test_counts_are_changed_and_the_total_is_not_an_edit(tmp_path: Path, own: Callable[..., Any]) -> None:
    (record,) = made(write(tmp_path, LEGS), model())
    assert record["counterfactual_answer"] == "18"
    assert record["counterfactuals_per_choice"]["direct_counterfactuals"][0]["fact"] == "They have 18 legs together."
    (case,) = own(record).cases()
    assert [edit.statement for edit in case.edits] == ["A crab has 12 legs."]
    assert len(record["counterfactuals_per_choice"]["unchanged_facts"]) == 1


def test_facts_are_verified(tmp_path: Path) -> None:
    corrected = model(Sentences_about=lambda prompt: f"The {prompt.rpartition('about ')[2][:-1]} is 1 km long.")

    def says(prompt: str) -> str:
        if prompt.endswith("True sentence:"):
            return " " + last(prompt, "Sentence").replace("Ouda is 1 ", "Ouda is 5 ")
        return corrected(prompt)

    (record,) = made(write(tmp_path, {**RIVER, "passages": ["The Ouda has 5 km."]}), says)
    assert record["facts_per_choice"]["choice_1_facts"][0]["fact"] == "The Ouda is 5 km long."


WRONG: dict[str, tuple[dict[str, Any], dict[str, Callable[[str], str]], str]] = {
    "no-other": (RIVER, {"Wrong_answer": lambda _p: "ouda"}, "the model wrote no other answer"),
    "refuted": (RIVER, {"Answer": lambda _p: "Wael"}, "the facts lead to the counterfactual answer"),
    "unsupported": (RIVER, {"Answer": lambda _p: "unknown"}, "the facts do not lead to the answer"),
    "not-entailed": (
        LEGS,
        {"Changed_sentences": lambda _p: "A crab has 99 legs.\nA bee has 6 legs."},
        "the counterfactual facts do not lead to the counterfactual answer",
    ),
    "not-as-many": (
        LEGS,
        {"Changed_sentences": lambda _p: "A crab has 12 legs."},
        "the number of changed facts differs from the number of facts",
    ),
    "no-triples": (RIVER, {"Statements": lambda _p: "It is long."}, "a fact was not split"),
    "bad-triple": (RIVER, {"Statements": lambda _p: "It is long. | (it, is, long)"}, "is not a \\(subject"),
    "no-facts": (LEGS, {"Sentences": lambda _p: ""}, "the model wrote no fact"),
    "no-subject": (RIVER, {"True_sentence": lambda _p: "The Ouda is 900 km long."}, "does not name its subject 'Wael'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_record_is_dropped_with_its_reason(tmp_path: Path, name: str) -> None:
    item, changed, reason = WRONG[name]
    why: Counter[str] = Counter()
    assert not made(write(tmp_path, item), model(**changed), why)
    assert len(why) == 1
    assert re.search(reason, next(iter(why)))


def test_one_of_contradicting_questions_is_kept(tmp_path: Path) -> None:
    says = model(Statements=lambda prompt: length(last(prompt, "Sentence")))
    why: Counter[str] = Counter()
    other = {**RIVER, "question": "Of the Ouda and the Tarn, which is longer?", "counterfactual_answer": "Tarn"}

    def three(prompt: str) -> str:
        return " The Tarn is 300 km long." if prompt.endswith("about Tarn:") else says(prompt)

    assert len(made(write(tmp_path, RIVER, other), three, why)) == 1
    assert why == {INCONSISTENT: 1}


def length(sentence: str) -> str:
    found = re.search(r"The (\w+) is (\d+) km", sentence)
    assert found is not None
    return f"{sentence} | ({found[1]}; length in km; {found[2]})"


def test_sorting_swaps_two_members(tmp_path: Path) -> None:
    item = {
        "question": "What is the order of the Ouda and the Wael by length, the longest first?",
        "answer": "Ouda, Wael",
        "counterfactual_answer": "Wael, Ouda",
        "scheme": "sorting",
    }

    def answer(prompt: str) -> str:
        found = re.findall(r"The (\w+) is (\d+) km", last(prompt, "Facts"))
        return ", ".join(name for name, _n in sorted(found, key=lambda one: -int(one[1])))

    (record,) = made(write(tmp_path, item), model(Answer=answer))
    assert record["counterfactuals_per_choice"]["choice_1_counterfactuals"][0]["fact"] == "The Ouda is 700 km long."


def test_yes_no_question_asks_for_the_compared_entities(tmp_path: Path) -> None:
    item = {"question": "Is the Ouda longer than the Wael?", "answer": "yes", "scheme": "comparative"}

    def answer(prompt: str) -> str:
        found = dict(re.findall(r"The (\w+) is (\d+) km", last(prompt, "Facts")))
        return "yes" if int(found["Ouda"]) > int(found["Wael"]) else "no"

    says = model(Answer=answer, Names=lambda _p: "Ouda; Wael", Wrong_answer=lambda _p: "no")
    (record,) = made(write(tmp_path, item), says)
    assert (record["answer"], record["counterfactual_answer"]) == ("yes", "no")


def test_invalid_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"questions\.jsonl, record 1: scheme: must be one of"):
        made(write(tmp_path, {**RIVER, "scheme": "guessing"}), model())


def test_model_is_required(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="a model is required"):
        list(RecoeBuilder(config=RecoeBuild(), words={}).from_questions(write(tmp_path, RIVER), BuildTools()))


def test_option_prompts(tmp_path: Path) -> None:
    builder = RecoeBuilder(config=RecoeBuild(prompts=str(tmp_path)), words={})
    tools = BuildTools(run=BatchingEngine(ScriptedModel(model())).run)
    with pytest.raises(BadConfig, match=r"build\.prompts: .*aliases\.txt cannot be read"):
        list(builder.from_questions(write(tmp_path, RIVER), tools))


def test_build_from_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_engine", lambda *_given: BatchingEngine(ScriptedModel(model())))
    known = BuildRequest(
        family="recoe",
        out=tmp_path / "recoe.json",
        questions=write(tmp_path, RIVER, LEGS),
        with_model=ModelChoice(reference="any"),
    )
    catalog = installed_catalog()
    assert building.build(known, catalog, SilentProgress()).records == 2
    assert {record["scheme"] for record in json.loads(known.out.read_text())} == {"superlative", "aggregation"}
    for wrong, said in (
        (evolve(known, graph="atlas"), "from either a graph or questions"),
        (evolve(known, questions=None), "from either a graph or questions"),
        (evolve(known, with_model=None), "a model is required"),
    ):
        with pytest.raises(BadConfig, match=said):
            building.build(evolve(wrong, force=True), catalog, SilentProgress())


def test_record_fields(tmp_path: Path) -> None:
    (record,) = made(write(tmp_path, RIVER), model())
    assert set(json.loads(json.dumps(record))) == {one.name for one in RecoeRecord.__attrs_attrs__} - {"notes"}
