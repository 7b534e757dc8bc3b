"""Prompts and their demonstrations, which are not about the cases."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from ke_core.plugin import Case, Query
from ke_plugin_atlas import AtlasConfig, prompts
from ke_plugin_atlas.cases import cases
from ke_plugin_atlas.dataset import Atlas, decompositions
from ke_plugin_atlas.world import RELATIONS, atlas_world

ATLAS = Atlas(config=AtlasConfig())
CASES = cases()


def multi_hop(case: Case) -> Query:
    return next(probe.queries[0] for probe in case.probes if probe.aspect == "multi-hop")


def shown() -> dict[str, str]:
    """Return every demonstration text."""
    texts = {relation: prompts.single(relation) for relation in RELATIONS}
    return texts | {"mixed": prompts.mixed(), "reasoned": prompts.reasoned(), "decompositions": decompositions()}


@pytest.mark.parametrize("name", shown())
def test_demonstrations_name_no_country_or_city_of_a_case(name: str) -> None:
    graph = atlas_world().graph
    facts = [fact for case in CASES for fact in (*case.facts_before, *case.facts_after)]
    entities = {e.key: e for fact in facts for e in (fact.subject, *fact.objects)}
    places = [entity for key, entity in entities.items() if graph.nodes[key].kind in ("country", "city")]
    assert len(places) > 300
    text = shown()[name]
    for place in places:
        for spelled in place.names:
            assert not re.search(rf"\b{re.escape(spelled)}\b", text), spelled


def test_single_hop_prompt_has_eight_demonstrations_of_its_relation() -> None:
    for relation in RELATIONS:
        assert prompts.single(relation).count("Q: ") == prompts.single(relation).count("\nA: ") == 8
    query = multi_hop(CASES[0]).hops[0]
    prompt = ATLAS.prompt(query, "direct")
    assert prompt is not None
    assert prompt.text == f"{prompts.single(str(query.relation))}Q: {query.texts[0]}\nA:"
    assert ATLAS.prompt(query, "cot") is None


def test_multi_hop_prompts_in_both_styles() -> None:
    query = multi_hop(CASES[0])
    direct, cot = ATLAS.prompt(query, "direct"), ATLAS.prompt(query, "cot")
    assert direct is not None
    assert cot is not None
    assert direct.text.count("Q: ") == 9
    assert cot.text.count("Question: ") == 5
    assert cot.text.endswith(f"Question: {query.texts[0]}\nThoughts:")
    assert cot.parse(" One. Two.\nAnswer: euro\n\n") == ("euro", True)
    assert cot.parse(" One. Two.") == ("", False)


def test_cloze_has_no_demonstrations() -> None:
    hop = multi_hop(CASES[0]).hops[0]
    query = evolve(hop, form="cloze", texts=(str(hop.cloze),))
    prompt = ATLAS.prompt(query, "direct")
    assert prompt is not None
    assert prompt.text == hop.cloze
    assert prompt.decoding.stop == ("\n",)
    assert prompt.parse(" Zambia\n") == ("Zambia", True)
    assert ATLAS.prompt(query, "cot") is None


def test_no_demonstration_contains_a_question_of_a_case() -> None:
    questions = {text for case in CASES for query in (multi_hop(case),) for text in query.texts}
    assert not any(question in text for question in questions for text in shown().values())


def test_question_entities_have_label_and_type() -> None:
    material = ATLAS.material()["question-entities"]
    assert material.oracle
    for case in CASES:
        asked = [query for probe in case.probes for query in probe.queries]
        assert all(query.texts[0] in material.value for query in asked)
        head = case.facts_before[0].subject.label
        assert {material.value[query.texts[0]] for query in asked if query.hops} <= {
            f"{head}, a city.",
            f"{head}, a country.",
        }


def test_decompositions_are_four_worked_examples_and_not_oracle() -> None:
    material = ATLAS.material()["decompositions"]
    assert not material.oracle
    blocks = material.value.split("\n\n")
    assert len(blocks) == 4
    for block in blocks:
        lines = block.splitlines()
        labels = [line.split(":")[0] for line in lines]
        hops = labels.count("Subquestion")
        assert labels[0] == "Question"
        assert labels[-1] == "Final answer"
        assert labels.count("Generated answer") == labels.count("Retrieved fact") == hops
        assert lines[-2].split(": ")[-1] == lines[-1].removeprefix("Final answer: ")
        assert len(lines) == 2 + 4 * hops


def test_sub_questions_of_demonstrations_use_the_templates_of_cases() -> None:
    graph = atlas_world().graph
    known = {graph.question(s, r) for r in RELATIONS for s in graph.triples[r]}
    asked = [line.removeprefix("Subquestion: ") for line in decompositions().splitlines() if "Subquestion" in line]
    assert asked
    assert set(asked) <= known
