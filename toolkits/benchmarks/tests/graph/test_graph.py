"""Look-ups, sentences and file errors of a graph in memory."""

from __future__ import annotations

import json

import pytest

from ke_benchmarks.graph import Graph, load_atlas, parse
from ke_core.plugin import BadData

SMALL = {
    "name": "small",
    "version": "1",
    "sources": [],
    "relations": {
        "capital": {
            "label": "capital",
            "subject": "country",
            "object": "city",
            "cloze": "The capital of {} is",
            "question": "What is the capital of {}?",
        },
        "borders": {
            "label": "borders",
            "subject": "country",
            "object": "country",
            "functional": False,
            "cloze": "{} borders",
        },
    },
    "entities": {
        "country:NL": {"label": "Netherlands", "aliases": ["Holland"], "article": True},
        "country:BE": {"label": "Belgium"},
        "country:DE": {"label": "Germany"},
        "city:NL/amsterdam": {"label": "Amsterdam"},
    },
    "facts": {
        "capital": {"country:NL": ["city:NL/amsterdam"]},
        "borders": {"country:NL": ["country:BE", "country:DE"], "country:BE": ["country:NL"]},
    },
}


@pytest.fixture
def small() -> Graph:
    return parse(json.dumps(SMALL), "small.json")


def test_objects_are_found_by_key_or_entity(small: Graph) -> None:
    netherlands = small.entity("country:NL")
    assert small.objects("country:NL", "capital") == small.objects(netherlands, "capital")
    assert small.objects(netherlands, "capital")[0].label == "Amsterdam"
    assert [entity.label for entity in small.objects(netherlands, "borders")] == ["Belgium", "Germany"]
    assert small.objects("country:BE", "capital") == ()


def test_object_is_none_if_there_are_several(small: Graph) -> None:
    assert small.object("country:NL", "capital") == small.entity("city:NL/amsterdam")
    assert small.object("country:NL", "borders") is None
    assert small.object("country:BE", "capital") is None


def test_article_is_part_of_the_template(small: Graph) -> None:
    cloze = small.cloze("country:NL", "capital")
    assert (cloze.template, cloze.subject) == ("The capital of the {} is", "Netherlands")
    assert small.cloze("country:NL", "borders").prompt == "The Netherlands borders"
    assert small.question("country:NL", "capital") == "What is the capital of the Netherlands?"
    assert small.mention("country:NL") == "the Netherlands"


def test_fact_text_is_a_sentence(small: Graph) -> None:
    texts = [fact.text for relation in small.links for fact in small.facts(relation)]
    assert texts == [
        "The capital of the Netherlands is Amsterdam",
        "The Netherlands borders Belgium, Germany",
        "Belgium borders the Netherlands",
    ]


def test_kinds_and_functional_flags_are_read(small: Graph) -> None:
    assert [entity.label for entity in small.entities("country")] == ["Netherlands", "Belgium", "Germany"]
    assert small.links["capital"].functional
    assert not small.links["borders"].functional
    assert [entity.label for entity in small.subjects("borders")] == ["Netherlands", "Belgium"]


def test_missing_fact_or_template_raises_key_error(small: Graph) -> None:
    with pytest.raises(KeyError):
        small.fact("country:BE", "capital")
    with pytest.raises(KeyError):
        small.question("country:BE", "borders")


@pytest.mark.parametrize("text", ["not json", "[]", "{}", '{"name": "x", "version": "1", "sources": 3}'])
def test_damaged_file_error_names_the_file(text: str) -> None:
    with pytest.raises(BadData, match=r"small\.json is not a knowledge graph"):
        parse(text, "small.json")


def test_template_without_a_slot_is_rejected() -> None:
    wrong = json.loads(json.dumps(SMALL))
    wrong["relations"]["capital"]["cloze"] = "The capital is"
    with pytest.raises(BadData, match="exactly one"):
        parse(json.dumps(wrong), "small.json")


def test_atlas_is_cached() -> None:
    assert load_atlas() is load_atlas()
