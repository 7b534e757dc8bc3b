"""The logical rules on small graphs, computed manually."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks.graph import Graph
from ke_core.plugin import BadData, Entity
from ke_plugin_ripple_edits.criteria import CriteriaBuilder
from ke_plugin_ripple_edits.rules import Rules, read
from ke_plugin_ripple_edits.wording import FactWriter
from ke_plugin_ripple_edits.world import PlannedEdit, RippleWorld, UniqueNames

KEYS = ("Logical_Generalization", "Compositionality_I", "Compositionality_II", "Subject_Aliasing", "Forgetfulness")


def criteria(graph: Graph, subject: str, relation: str, new: str) -> CriteriaBuilder:
    """Return the builder for the edit that gives subject and relation the object ``new``."""
    rules = Rules.of(read(), graph)
    node = graph.node(new)
    plan = PlannedEdit(
        subject=graph.entity(subject),
        relation=relation,
        new=node.entity,
        old=graph.objects(subject, relation),
        functional=graph.links[relation].functional,
    )
    world = RippleWorld(graph=graph, rules=rules, plan=plan)
    return CriteriaBuilder(
        world=world, wording=FactWriter(graph=graph, rules=rules), names=UniqueNames(graph), backwards=10
    )


def said(made: CriteriaBuilder) -> dict[str, dict[str, set[str]]]:
    """Return the answers by key and prompt."""
    return {
        key: {
            query["prompt"]: {answer["value"] for answer in query["answers"]}
            for one in found
            for query in one.test["test_queries"]
        }
        for key, found in made.tests().items()
    }


def conditions(made: CriteriaBuilder, key: str) -> dict[str, list[str]]:
    """Return the prompts of conditions by the first prompt of a test."""
    return {
        one.test["test_queries"][0]["prompt"]: [query["prompt"] for query in one.test["condition_queries"]]
        for one in made.tests()[key]
    }


def test_consequences_of_mother(toy: Any) -> None:
    """New has Una and Ulf, Fay has Ed and Cis. Ed is not his own sibling; New has one more child."""
    made = criteria(toy.family(), "person:ed", "mother", "person:new")
    assert said(made)["Logical_Generalization"] == {
        "A sibling of Ed is": {"Una", "Ulf", "Cis"},
        "An uncle of Ed is": {"Bob"},
        "Besides Una and Ulf, the child of New is": {"Ed"},
        "The number of children of New is": {"3"},
    }
    found = conditions(made, "Logical_Generalization")
    assert found["A sibling of Ed is"] == ["The child of New is", "The father of Ed is", "The child of Fay is"]
    assert found["Besides Una and Ulf, the child of New is"] == []


def test_consequences_of_father(toy: Any) -> None:
    made = criteria(toy.family(), "person:una", "father", "person:fay")
    assert said(made)["Logical_Generalization"] == {
        "A sibling of Una is": {"Ed", "Cis", "Ulf"},
        "Besides Ed and Cis, the child of Fay is": {"Una"},
        "The number of children of Fay is": {"3"},
    }


def test_consequences_of_brother(toy: Any) -> None:
    """Two tests with two queries, and one with one."""
    made = criteria(toy.family(), "person:ed", "brother", "person:bob")
    tests = [[query["prompt"] for query in one.test["test_queries"]] for one in made.tests()["Logical_Generalization"]]
    assert tests == [
        ["Besides Ed and Cis, the child of Old is", "Besides Ed and Cis, the child of Fay is"],
        ["The mother of Bob is", "The father of Bob is"],
        ["A sibling of Bob is"],
    ]


def test_consequences_of_spouse_and_followed_by(toy: Any) -> None:
    """The released code asks for siblings, and in the wrong direction."""
    couples = toy.graph(
        {"spouse": toy.relation("spouse", "p", "p"), "next": toy.relation("followed by", "p", "p"),
         "prior": toy.relation("follows", "p", "p")},
        {"spouse": {"p:A": ["p:B"]}, "next": {"p:A": ["p:B"]}, "prior": {}},
        ["p:A", "p:B", "p:C"],
    )  # fmt: skip
    assert said(criteria(couples, "p:A", "spouse", "p:C"))["Logical_Generalization"] == {"The spouse of C is": {"A"}}
    assert said(criteria(couples, "p:A", "next", "p:C"))["Logical_Generalization"] == {"The follows of C is": {"A"}}


@pytest.fixture
def places(toy: Any) -> Graph:
    """Ur is in Xan; Yor is another country, with the capital Ona; Sum borders Xan."""
    return toy.graph(  # type: ignore[no-any-return]
        {
            "country": {**toy.relation("country", "city", "country"), "cloze": "{} is a city in"},
            "continent": toy.relation("continent", "country", "continent"),
            "currency": toy.relation("currency", "country", "money"),
            "language": toy.relation("official language", "country", "tongue", functional=False),
            "anthem": toy.relation("anthem", "country", "song"),
            "capital": toy.relation("capital", "country", "city", inverse="capital-of"),
            "capital-of": {**toy.relation("capital of", "city", "country", inverse="capital"), "cloze": "{} rules"},
            "mayor": toy.relation("mayor", "city", "person"),
            "founded": toy.relation("year of foundation", "city", "date"),
            "neighbour": toy.relation("neighbour", "country", "country", functional=False),
            "people": toy.relation("population", "country", "number"),
        },
        {
            "country": {"city:Ur": ["country:Xan"]},
            "continent": {"country:Xan": ["continent:Ea"], "country:Yor": ["continent:We"]},
            "currency": {"country:Xan": ["money:xu"], "country:Yor": ["money:yu"]},
            "language": {"country:Xan": ["tongue:Xi"], "country:Yor": ["tongue:Yi"]},
            "anthem": {"country:Xan": ["song:Oh"], "country:Yor": ["song:Ah"]},
            "capital": {"country:Yor": ["city:Ona"]},
            "capital-of": {"city:Ona": ["country:Yor"]},
            "mayor": {"city:Ur": ["person:May"]},
            "founded": {"city:Ur": ["date:1200-01-01"], "city:Ona": ["date:1300-01-01"]},
            "neighbour": {"country:Sum": ["country:Xan"], "country:Xan": ["country:Sum"]},
            "people": {"country:Xan": ["number:5"], "country:Yor": ["number:6"]},
        },
        ["city:Ur", "city:Ona", "country:Xan", "country:Yor", "country:Sum", "continent:Ea", "continent:We", "money:xu",
         "money:yu", "tongue:Xi", "tongue:Yi", "song:Oh", "song:Ah", "person:May"],
        Ur={"label": "Ur", "aliases": ["Uru", "Ona", "Yor City"]},
    )  # fmt: skip


def test_consequences_of_country(places: Graph) -> None:
    made = criteria(places, "city:Ur", "country", "country:Yor")
    assert said(made)["Logical_Generalization"] == {
        "The continent on which Ur lies is": {"We"},
        "The currency used in Ur is the": {"yu"},
        "The official language spoken in Ur is": {"Yi"},
        "The anthem that one is most likely to hear in Ur is": {"Ah"},
    }
    assert conditions(made, "Logical_Generalization")["The continent on which Ur lies is"] == [
        "The continent of Yor is"
    ]


def test_compositionality_1(places: Graph) -> None:
    made = criteria(places, "city:Ur", "country", "country:Yor")
    assert said(made)["Compositionality_I"] == {
        "The continent on which the country to which Ur belongs lies is": {"We"},
        "The currency used in the country to which Ur belongs is the": {"yu"},
        "The official language spoken in the country to which Ur belongs is": {"Yi"},
        "The anthem of the country to which Ur belongs is": {"Ah"},
        "The capital of the country to which Ur belongs is": {"Ona"},
    }


def test_compositionality_2(places: Graph) -> None:
    made = criteria(places, "country:Xan", "continent", "continent:We")
    assert said(made)["Compositionality_II"] == {
        "The continent on which the country to which Ur belongs lies is": {"We"}
    }
    assert conditions(made, "Compositionality_II") == {
        "The continent on which the country to which Ur belongs lies is": ["Ur is a city in"]
    }


def test_relation_specificity(places: Graph) -> None:
    """An edit of the country excludes continent, official language, capital of, and currency."""
    country = {"country": {"city:Ur": ["country:Xan"]}, "capital-of": {"city:Ur": ["country:Xan"]}}
    both = evolve(
        places, triples={**places.triples, **{k: {s: tuple(o) for s, o in v.items()} for k, v in country.items()}}
    )
    made = criteria(both, "city:Ur", "country", "country:Yor")
    assert said(made)["Relation_Specificity"] == {
        "The mayor of Ur is": {"May"},
        "The year of foundation of Ur is": {"1200-01-01"},
    }


def test_preservation(places: Graph) -> None:
    assert said(criteria(places, "country:Xan", "continent", "continent:We"))["Forgetfulness"] == {}
    kept = criteria(places, "country:Xan", "language", "tongue:Yi")
    assert said(kept)["Forgetfulness"] == {"The official language of Xan, which is not Yi, is": {"Xi"}}
    assert said(kept)["Compositionality_I"] == said(kept)["Compositionality_II"] == {}


def test_dates_are_not_composed(places: Graph) -> None:
    made = said(criteria(places, "city:Ur", "founded", "date:1300-01-01"))
    assert made["Compositionality_I"] == made["Compositionality_II"] == made["Logical_Generalization"] == {}


def test_subject_aliasing(places: Graph) -> None:
    made = criteria(places, "city:Ur", "country", "country:Yor")
    assert said(made)["Subject_Aliasing"] == {"Uru is a city in": {"Yor"}}
    assert [
        q["answers"][0]["value"] for t in made.tests()["Subject_Aliasing"] for q in t.test["condition_queries"]
    ] == ["Xan"]


def test_inverse_of_capital(places: Graph) -> None:
    made = criteria(places, "country:Yor", "capital", "city:Ur")
    assert said(made)["Logical_Generalization"] == {"Ur rules": {"Yor"}, "Ur is a city in": {"Yor"}}


def test_symmetric_relation_excludes_known_objects(places: Graph) -> None:
    made = criteria(places, "country:Yor", "neighbour", "country:Xan")
    assert said(made)["Logical_Generalization"] == {"The neighbour of Xan, which is not Sum, is": {"Yor"}}


def test_unchanged_consequences_are_not_tested(places: Graph) -> None:
    same = evolve(
        places,
        triples={**places.triples, "continent": {"country:Xan": ("continent:We",), "country:Yor": ("continent:We",)}},
    )
    made = said(criteria(same, "city:Ur", "country", "country:Yor"))
    assert not any("continent" in prompt for key in KEYS for prompt in made[key])


def test_consequences_of_place_of_death(toy: Any) -> None:
    people = toy.graph(
        {"P20": toy.relation("place of death", "person", "city")},
        {"P20": {"person:A": ["city:B"]}},
        ["person:A", "city:B", "city:C"],
    )
    made = said(criteria(people, "person:A", "P20", "city:C"))
    assert made["Logical_Generalization"]["Asked whether A is still alive, one has to answer:"] == {"no"}


# --- the table -------------------------------------------------------------------------------------------


def test_relations_are_found_by_key_id_and_label(places: Graph) -> None:
    rules = Rules.of(read(), places)
    assert rules.key("official-language") == "language"
    assert rules.key("capital-of") == "capital-of"
    assert rules.key("mother") == "mother"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]]\nedit = ['boss']\nany = [{about = 'subject', ask = 'child', answer = ['object']}]", "'boss'"),
        ("[[rule]]\nedit = ['child']\nany = [{about = 'me', ask = 'child', answer = ['object']}]", "must start at"),
        ("[[rule]]\nedit = ['child']\nany = [{about = 'subject', ask = 'child'}]", "exactly one of answer and says"),
        ("[relations.boss]\ndescribe = 'the boss'", "exactly one {}"),
        ("[relations.boss]\nchanges = 'x'", "must be a list, not a text"),
        ("[relations.boss]\nchanges = ['x']", "relations.boss names the unknown relation 'x'"),
        ("rule = 3", "rule: must be a list"),
        ("nonsense", "is not TOML: "),
    ],
)  # fmt: skip
def test_invalid_rules_are_rejected(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadData) as caught:
        read(path)
    assert says in str(caught.value)
    assert "own.toml" in str(caught.value)


def test_own_rules_are_added(tmp_path: Path, places: Graph, toy: Any) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        "[relations.mayor]\n[relations.town]\ncloze = 'The town that {} runs is'\n"
        "[[rule]]\nedit = ['mayor']\nany = [{about = 'object', ask = 'town', answer = ['subject']}]\n",
        encoding="utf-8",
    )
    found: Mapping[str, Any] = next(r for r in toy.records(places, rules=str(path)) if r["edit"]["relation"] != "x")
    assert found
    assert Rules.of(read(path), places).rules("mayor")


def test_ids_are_not_unique_labels(toy: Any) -> None:
    names = UniqueNames(toy.graph({}, {}, []))
    assert not names.clear(Entity(label="Q42", id="x"))
    assert names.clear(Entity(label="Q 42", id="x"))
