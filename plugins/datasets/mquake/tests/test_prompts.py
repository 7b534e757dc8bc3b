"""Prompts and their demonstrations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from attrs import evolve

import ke_plugin_mquake
from ke_core.plugin import BadData
from ke_plugin_mquake.prompts import OWN, PUBLISHED, load
from ke_testing.dataset import check_missing_file

FOLDER = Path(ke_plugin_mquake.__file__).parent / "prompts"
RECALL = json.loads((FOLDER / "recall.json").read_text())
DECOMPOSE = (FOLDER / "decompose.txt").read_text()


def queries(case):
    probes = {probe.id: probe for probe in case.probes}
    return probes["efficacy-1"].queries[0], probes["multi-hop"].queries[0]


def test_single_hop_prompt_has_eight_demonstrations_of_its_relation(record, stored) -> None:
    dataset = stored([record])
    hop, _ = queries(next(dataset.cases()))
    *shown, last = dataset.prompt(hop, "direct").text.split("\n")
    assert len(shown) == 8
    assert all(line.startswith("Q: What is the country of citizenship of ") and " A: " in line for line in shown)
    assert last == "Q: What is the country of citizenship of Mira Toll? A:"


def test_cloze_has_no_demonstrations(record, stored) -> None:
    dataset = stored([record])
    hop, _ = queries(next(dataset.cases()))
    prompt = dataset.prompt(evolve(hop, form="cloze", texts=(hop.cloze,)), "direct")
    assert prompt.text == "Mira Toll is a citizen of"
    assert prompt.decoding.stop == ("\n",)


def test_multi_hop_prompts_in_both_styles(record, stored) -> None:
    dataset = stored([record])
    _, question = queries(next(dataset.cases()))
    direct, thought = (dataset.prompt(question, style).text for style in ("direct", "cot"))
    assert (direct.count("Q: "), direct.count(" A: "), direct.count("\n")) == (17, 16, 16)
    assert direct.endswith(f"\nQ: {question.texts[0]} A:")
    assert [thought.count(f"{label}:") for label in ("Question", "Thoughts", "Answer")] == [6, 6, 5]
    assert thought.endswith(f"\n\nQuestion: {question.texts[0]}\nThoughts:")


def test_single_hops_have_no_chain_of_thought(record, stored) -> None:
    dataset = stored([record])
    hop, question = queries(next(dataset.cases()))
    assert dataset.prompt(hop, "cot") is None
    assert dataset.prompt(evolve(hop, form="cloze"), "cot") is None
    assert dataset.prompt(question, "few-shot") is None


def test_decoding_is_greedy_and_stops_at_line_ends(record, stored) -> None:
    dataset = stored([record])
    hop, question = queries(next(dataset.cases()))
    short, thoughts = dataset.prompt(hop, "direct"), dataset.prompt(question, "cot")
    assert short.decoding == dataset.prompt(question, "direct").decoding
    assert (short.decoding.stop, short.decoding.temperature) == (("\n",), 0.0)
    assert (thoughts.decoding.stop, thoughts.decoding.temperature) == (("\n\n", "\nQuestion:"), 0.0)
    assert short.parse(" W. G. Sebald\nQ: next") == ("W. G. Sebald", True)


def test_answer_is_parsed_from_the_output_only(record, stored) -> None:
    dataset = stored([record])
    prompt = dataset.prompt(queries(next(dataset.cases()))[1], "cot")
    assert prompt.parse(" Mira Toll is a citizen of Boland. The capital of Boland is Boville.\nAnswer: Boville\nX") == (
        "Boville",
        True,
    )
    assert prompt.parse(" I do not know Boville") == ("", False)
    assert prompt.text.count("Answer:") == 5  # the prompt has answers of its own, and none of them counts


def test_each_of_37_relations_has_eight_demonstrations() -> None:
    assert len(RECALL) == 37
    assert {len(item["answers"]) for item in RECALL.values()} == {8}
    assert all(item["question"].count("{}") == 1 for item in RECALL.values())


def test_demonstrations_use_the_templates_of_the_data(cases) -> None:
    relations = {fact.relation.id: fact.relation for case in cases for fact in (*case.facts_before, *case.facts_after)}
    assert set(RECALL) - set(relations) == {"P364"}
    assert all(RECALL[key]["question"] == relation.question for key, relation in relations.items())


def test_demonstrations_contain_no_question_or_fact_of_the_benchmark(cases) -> None:
    asked, told = set(), set()
    for case in cases:
        for probe in case.probes:
            asked |= {query.texts[0] for query in probe.queries}
        told |= {fact.text for fact in (*case.facts_before, *case.facts_after)} | {e.statement for e in case.edits}
    prompts = load("own", None)
    shown = [line for text in (*prompts.recall.values(), prompts.multi_hop) for line in text.split("\n")]
    questions = [re.fullmatch(r"Q: (.+?) A: .+", line)[1] for line in shown]
    questions += re.findall(r"uestion: (.+)", prompts.cot + "\n" + DECOMPOSE)
    assert len(questions) == 37 * 8 + 16 + 5 + 4 + 12
    assert not asked & set(questions)
    assert not [text for text in told if text in DECOMPOSE or text in prompts.cot]


def test_decompositions_have_mellos_format() -> None:
    blocks = DECOMPOSE.strip().split("\n\n")
    assert len(blocks) == 4
    turn = (
        r"Subquestion: .+\?\nGenerated answer: .+\.\nRetrieved fact: .+\.\n"
        r"The retrieved fact (does not contradict|contradicts) the generated answer, so the answer here is: (.+)\n"
    )
    for block in blocks:
        assert re.fullmatch(rf"Question: .+\?\n({turn})+Final answer: .+", block)
        *_, (_verdict, last) = re.findall(r"(contradicts?) the generated answer, so the answer here is: (.+)", block)
        assert block.endswith(f"Final answer: {last}")
    assert "The origianl broadcaster of" in DECOMPOSE  # memories hold the data's own spelling


def test_decompositions_are_not_oracle_material(record, stored) -> None:
    material = stored([record]).material()["decompositions"]
    assert not material.oracle
    assert material.value == DECOMPOSE.strip()


def publish(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    lines = "\n".join(f"Q: Place {n}? A: Town {n}" for n in range(8))
    texts = (json.dumps({"P27": lines, "P36": lines}), "Q: a? A: b\n", "Question: c\n", "Question: d\n")
    for name, text in zip(PUBLISHED, texts, strict=True):
        (folder / name).write_text(text)


def test_published_prompts_are_read_from_the_data_folder(record, stored, tmp_path) -> None:
    publish(tmp_path / "mquake")
    dataset = stored([record], prompts="paper")
    hop, question = queries(next(dataset.cases()))
    assert dataset.prompt(hop, "direct").text.startswith("Q: Place 0? A: Town 0\n")
    assert dataset.prompt(hop, "direct").text.count("\n") == 8
    assert dataset.prompt(question, "direct").text == f"Q: a? A: b\nQ: {question.texts[0]} A:"
    assert dataset.material()["decompositions"].value == "Question: d"


def test_missing_published_prompts_have_instructions(record, stored, tmp_path) -> None:
    place = tmp_path / "cache" / "data" / "mquake" / "rel-prompts.json"
    check_missing_file(stored([record], prompts="paper"), place, "prompts/rel-prompts.json")


def test_prompts_from_a_folder(record, stored, tmp_path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in OWN:
        (folder / name).write_text((FOLDER / name).read_text().replace("Usain Bolt", "Grace Jones"))
    dataset = stored([record], prompts=str(folder))
    hop, _ = queries(next(dataset.cases()))
    assert "Grace Jones? A: Jamaica" in dataset.prompt(hop, "direct").text


def test_folder_without_prompts_is_rejected(record, stored, tmp_path) -> None:
    with pytest.raises(BadData, match=r"no prompt file .*recall\.json") as caught:
        list(stored([record], prompts=str(tmp_path / "nothing")).cases())
    assert "own, paper, or a folder" in caught.value.hint


@pytest.mark.parametrize(("name", "content"), [
    ("recall.json", b"{"), ("recall.json", b"[]"), ("recall.json", b'{"P27": "Q: a? A: b"}'),
    ("recall.json", b'{"P27": {"question": "no slot", "answers": {"a": "b"}}}'),
    ("recall.json", b'{"P27": {"question": "{}?", "answers": {}}}'),
    ("multi-hop.txt", b" \n"), ("cot.txt", b"\xff"),
])  # fmt: skip
def test_invalid_prompt_file_is_named(record, stored, tmp_path, name, content) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for own in OWN:
        (folder / own).write_bytes((FOLDER / own).read_bytes())
    (folder / name).write_bytes(content)
    with pytest.raises(BadData, match=re.escape(name)) as caught:
        list(stored([record], prompts=str(folder)).cases())
    assert "\n" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"[]", b'{"P27": 3}', b'{"P27": " "}'])
def test_invalid_published_prompt_file_is_named(record, stored, tmp_path, content) -> None:
    publish(tmp_path / "mquake")
    (tmp_path / "mquake" / PUBLISHED[0]).write_bytes(content)
    with pytest.raises(BadData, match=r"rel-prompts\.json"):
        list(stored([record], prompts="paper").cases())


def test_checksum_covers_data_and_prompts(record, stored, tmp_path) -> None:
    publish(tmp_path)
    seen = {stored([record]).info().sha256, stored([record], prompts="paper").info().sha256}
    seen.add(stored([{**record, "case_id": 8}]).info().sha256)
    assert len(seen) == 3
    assert all(len(sha256) == 64 for sha256 in seen)
    assert stored([record]).info() == stored([record]).info()
