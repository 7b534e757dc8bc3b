"""Content of the embedded atlas."""

from __future__ import annotations

import re
import time
from importlib.resources import files

import pytest

from ke_benchmarks.graph import Graph, load_atlas, parse
from ke_testing.process import imported_by

COUNTS = {
    "capital": 159,
    "capital-of": 159,
    "country": 403,
    "continent": 160,
    "currency": 160,
    "language": 145,
    "largest-neighbour": 116,
    "neighbour": 111,
    "population": 164,
    "city-population": 550,
    "area": 161,
}
LEFT_OUT = ["BI", "GQ", "PW", "LU", "SG", "MC", "GE", "GN", "CG", "CD", "DJ", "SM", "VA", "DM"]
NEVER_NAMED = ["IL", "PS", "XK", "EH", "TW", "HK", "GL"]


@pytest.fixture(scope="module")
def atlas() -> Graph:
    return load_atlas()


def test_atlas_has_the_expected_counts(atlas: Graph) -> None:
    assert {name: len(rows) for name, rows in atlas.triples.items()} == COUNTS


def test_facts_match_the_kinds_of_their_relation(atlas: Graph) -> None:
    for name, rows in atlas.triples.items():
        link = atlas.links[name]
        for subject, objects in rows.items():
            assert atlas.nodes[subject].kind == link.subject
            assert {atlas.kind(key) for key in objects} == {link.object}
            assert len(set(objects)) == len(objects)
            assert len(objects) == 1 or not link.functional


def test_inverse_relations_contain_the_same_facts(atlas: Graph) -> None:
    for name, link in atlas.links.items():
        if link.inverse:
            forwards = {(s, o) for s, objects in atlas.triples[name].items() for o in objects}
            assert forwards == {(o, s) for s, objects in atlas.triples[link.inverse].items() for o in objects}


@pytest.mark.parametrize(
    ("subject", "relation", "least", "most"),
    [
        ("country:CN", "population", 1.35e9, 1.45e9),
        ("country:DE", "population", 80e6, 86e6),
        ("country:RU", "area", 16.9e6, 17.2e6),
        ("city:JP/tokyo", "city-population", 8e6, 15e6),
    ],
)
def test_sizes_are_close_to_reference_values(
    atlas: Graph, subject: str, relation: str, least: float, most: float
) -> None:
    found = atlas.number(subject, relation)
    assert found is not None
    assert least < found < most
    assert atlas.links[relation].unit


def test_sizes_that_differ_between_sources_are_omitted(atlas: Graph) -> None:
    for code in ("IE", "JO", "LB", "MV", "SY"):
        assert atlas.number(f"country:{code}", "population") is None
    for code in ("FR", "RS", "PK"):
        assert atlas.number(f"country:{code}", "area") is None
    assert atlas.number("city:PK/lahore", "city-population") is None


def test_every_size_is_a_positive_number(atlas: Graph) -> None:
    for name in ("population", "city-population", "area"):
        for subject in atlas.triples[name]:
            assert (atlas.number(subject, name) or 0) > 0


def test_countries_have_all_official_languages(atlas: Graph) -> None:
    several = {s: [e.label for e in atlas.objects(s, "language")] for s in atlas.triples["language"]}
    assert several["country:BE"] == ["German", "French", "Dutch"]
    assert several["country:MK"] == ["Macedonian", "Albanian"]
    assert sum(len(found) > 1 for found in several.values()) == 33


def test_the_largest_neighbor_is_a_neighbor(atlas: Graph) -> None:
    for subject, (largest,) in atlas.triples["largest-neighbour"].items():
        assert largest in atlas.triples["neighbour"].get(subject, (largest,))
        assert subject in atlas.triples["neighbour"].get(largest, (subject,))


def test_every_relation_has_its_templates(atlas: Graph) -> None:
    for link in atlas.links.values():
        assert link.relation.cloze
        assert link.relation.question


def test_no_two_entities_share_a_name(atlas: Graph) -> None:
    owners: dict[str, str] = {}
    for key, node in atlas.nodes.items():
        for name in node.entity.names:
            assert owners.setdefault(name.casefold(), key) == key


def test_no_alias_is_blank(atlas: Graph) -> None:
    for node in atlas.nodes.values():
        assert all(name.strip() == name and name for name in node.entity.names)
        assert len(set(node.entity.names)) == len(node.entity.names)


def test_no_label_is_a_bare_code(atlas: Graph) -> None:
    for key, node in atlas.nodes.items():
        assert not re.fullmatch(r"[A-Z]{2,3}|[a-z]{2}|Q\d+", node.entity.label), key
        assert node.entity.label.isascii()


def test_excluded_countries_have_no_facts(atlas: Graph) -> None:
    for code in LEFT_OUT:
        assert not any(f"country:{code}" in rows for rows in atlas.triples.values())
    assert not any(f"country:{code}" in atlas.nodes for code in NEVER_NAMED)


def test_country_and_capital_have_different_names(atlas: Graph) -> None:
    for fact in atlas.facts("capital"):
        assert not set(fact.subject.names) & set(fact.objects[0].names)


@pytest.mark.parametrize(
    ("subject", "relation", "label"),
    [
        ("country:KZ", "capital", "Astana"),
        ("country:MM", "capital", "Naypyidaw"),
        ("country:BR", "capital", "Brasilia"),
        ("country:HR", "currency", "euro"),
        ("country:JP", "currency", "Japanese yen"),
        ("country:AT", "language", "German"),
        ("country:PT", "largest-neighbour", "Spain"),
        ("city:CN/shanghai", "country", "China"),
    ],
)
def test_corrected_facts_have_the_expected_values(atlas: Graph, subject: str, relation: str, label: str) -> None:
    found = atlas.object(subject, relation)
    assert found is not None
    assert found.label == label


@pytest.mark.parametrize(
    ("subject", "relation"),
    [
        ("country:BG", "currency"),
        ("country:ZA", "capital"),
        ("country:BO", "capital"),
        ("country:ID", "capital"),
        ("country:RU", "continent"),
        ("country:MX", "language"),
        ("country:RS", "neighbour"),
    ],
)
def test_doubtful_facts_are_omitted(atlas: Graph, subject: str, relation: str) -> None:
    assert atlas.objects(subject, relation) == ()


def test_other_spellings_are_aliases(atlas: Graph) -> None:
    assert "Brasília" in atlas.entity("city:BR/brasilia").aliases
    assert {"yen", "JPY"} <= set(atlas.entity("currency:JPY").aliases)
    assert "Polish złoty" in atlas.entity("currency:PLN").aliases


def test_file_contains_sources_and_licenses(atlas: Graph) -> None:
    notice = files("ke_benchmarks.graph").joinpath("ATLAS-NOTICE.txt").read_text(encoding="utf-8")
    for source in atlas.sources:
        assert source["name"] in notice
        assert source["version"] in notice
        assert "MIT" in source["licence"]
    assert "CC BY 4.0" in notice
    assert "GeoNames" in atlas.sources[0]["licence"]


def test_atlas_is_small_and_loads_fast() -> None:
    text = files("ke_benchmarks.graph").joinpath("atlas.json").read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    spent = []
    for _ in range(5):
        start = time.process_time()
        parse(text, "atlas.json")
        spent.append(time.process_time() - start)
    assert min(spent) < 0.05


def test_reading_the_atlas_imports_no_heavy_package() -> None:
    opened = ("urllib.request", "tomllib")  # these are for graphs that are opened
    assert imported_by("import ke_benchmarks.graph; ke_benchmarks.graph.load_atlas()", "torch", "numpy", *opened) == []
