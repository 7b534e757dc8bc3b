"""Graphs from the user's files: valid files, skipped rows and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_benchmarks.graph import KnowledgeGraph, load_atlas, open_graph
from ke_core.plugin import BadData

pytest.importorskip("pyoxigraph", reason="pyoxigraph, which reads RDF, is not installed")

CSV = """subject,relation,object
Ann Reyes,works-for,Norvik
Bob Tan,works-for,Halden
Cy Orr,works-for,Norvik
Norvik,headquarters,Lund
Halden,headquarters,Bergen
Norvik,partner,Halden
Norvik,partner,"Sola Foods, Ltd"
Norvik,staff,number:120
Norvik,founded,date:1999-05-01
Norvik,alias,Norvik AB
"""
TABLE = """
articles = ["Halden"]
[relations.works-for]
label = "employer"
cloze = "{} works for"
question = "Which company does {} work for?"
subject = "person"
object = "company"
[relations.headquarters]
subject = "company"
object = "city"
"""
NT = """<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P36> \
<http://www.wikidata.org/entity/Q2> .
<http://www.wikidata.org/entity/P36> <http://www.w3.org/2000/01/rdf-schema#label> "capital"@en .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "Alandia"@fr .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "Aland"@en .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2004/02/skos/core#altLabel> "AL"@en .
<http://www.wikidata.org/entity/Q2> <http://www.w3.org/2000/01/rdf-schema#label> "Alaville" .
<http://www.wikidata.org/entity/Q1> <http://example.org/population> "42"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://www.wikidata.org/entity/Q1> <http://example.org/motto> "Courage"@fr .
_:b <http://www.wikidata.org/prop/direct/P36> <http://www.wikidata.org/entity/Q2> .
<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P31> <http://www.wikidata.org/entity/Q6256> .
<http://www.wikidata.org/entity/Q6256> <http://www.w3.org/2000/01/rdf-schema#label> "country"@en .
<http://example.org/population> <http://www.w3.org/2000/01/rdf-schema#label> "population"@en .
"""


def opened(folder: Path, text: str | bytes, name: str, table: str = "", *, skip: bool = False) -> KnowledgeGraph:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    if table:
        (folder / "table.toml").write_text(table)
    path = folder / "table.toml" if table else None
    return open_graph(str(folder / name), relations=path, skip_unlabeled=skip).graph


@pytest.fixture
def company(tmp_path: Path) -> KnowledgeGraph:
    return opened(tmp_path, CSV, "facts.csv")


def test_facts_are_found_by_subject_and_by_object(company: KnowledgeGraph) -> None:
    assert company.fact("Ann Reyes", "works-for").objects[0].label == "Norvik"
    assert [e.label for e in company.holders("works-for", "Norvik")] == ["Ann Reyes", "Cy Orr"]
    assert [e.label for e in company.objects("Norvik", "partner")] == ["Halden", "Sola Foods, Ltd"]
    assert [e.label for e in company.subjects("headquarters")] == ["Halden", "Norvik"]
    assert company.popularity("Norvik") == 7
    assert company.entity("Norvik").aliases == ("Norvik AB",)


def test_unknown_entity_or_relation_raises_key_error(company: KnowledgeGraph) -> None:
    with pytest.raises(KeyError):
        company.node("Nobody")
    with pytest.raises(KeyError):
        company.objects("Norvik", "rivals")


def test_literals_have_the_kinds_number_and_date(company: KnowledgeGraph) -> None:
    assert company.number("Norvik", "staff") == 120
    assert company.links["staff"].object == "number"
    assert company.links["founded"].object == "date"
    assert company.kind("number:120") == "number"


def test_functional_relations_are_inferred_from_the_facts(company: KnowledgeGraph) -> None:
    assert company.links["works-for"].functional
    assert not company.links["partner"].functional


def test_kinds_are_inferred_from_positions(company: KnowledgeGraph) -> None:
    assert company.kind("Norvik") == company.kind("Halden") == company.links["headquarters"].subject
    assert company.links["works-for"].object == company.links["headquarters"].subject
    assert company.kind("Ann Reyes") != company.kind("Norvik")
    assert {e.label for e in company.entities(company.kind("Lund"))} == {"Lund", "Bergen"}


def test_templates_are_derived_from_the_relation_name(company: KnowledgeGraph) -> None:
    assert company.question("Norvik", "headquarters") == "What is the headquarters of Norvik?"
    assert company.fact("Ann Reyes", "works-for").text == "Ann Reyes works for Norvik"


def test_relation_table_sets_names_and_templates(tmp_path: Path) -> None:
    graph = opened(tmp_path, CSV, "facts.csv", TABLE)
    assert list(graph.links) == ["headquarters", "works-for"]
    assert graph.question("Ann Reyes", "works-for") == "Which company does Ann Reyes work for?"
    assert graph.kind("Norvik") == "company"
    assert graph.kind("Ann Reyes") == "person"
    assert graph.mention("Halden") == "the Halden"


def test_tsv_file_needs_no_headings(tmp_path: Path) -> None:
    graph = opened(tmp_path, "Ann\tboss\tBob\n\nBob\tboss\tCy\n", "facts.tsv")
    assert graph.fact("Ann", "boss").objects[0].label == "Bob"


def test_optional_columns_set_labels_aliases_and_kinds(tmp_path: Path) -> None:
    head = "subject,relation,object,subject_label,object_label,subject_kind,object_aliases"
    text = f"{head}\nQ1,capital,Q2,Aland,Ville,country,V|W\n"
    graph = opened(tmp_path, text, "facts.csv")
    assert graph.fact("Q1", "capital").text == "The capital of Aland is Ville"
    assert graph.entity("Q2").aliases == ("V", "W")
    assert graph.kind("Q1") == "country"


def test_ntriples_with_labels_kinds_literals_and_skipped_rows(tmp_path: Path) -> None:
    (tmp_path / "facts.nt").write_text(NT)
    found = open_graph(str(tmp_path / "facts.nt"))
    graph = found.graph
    assert graph.fact("Q1", "P36").text == "The capital of Aland is Alaville"
    assert graph.entity("Q1").aliases == ("AL",)
    assert graph.number("Q1", "http://example.org/population") == 42
    assert graph.kind("Q1") == "country"
    assert found.skipped == {"a blank node": 1, "a text in a language other than English": 1}


def test_turtle_file_is_read(tmp_path: Path) -> None:
    text = (
        '@prefix x: <http://x.org/> . x:a x:boss x:b . x:a <http://www.w3.org/2000/01/rdf-schema#label> "Ann" .'
        ' x:b <http://www.w3.org/2000/01/rdf-schema#label> "Bob" .'
        ' x:boss <http://www.w3.org/2000/01/rdf-schema#label> "boss" .'
    )
    graph = opened(tmp_path, text, "facts.ttl")
    assert [fact.text for fact in graph.facts("http://x.org/boss")] == ["The boss of Ann is Bob"]


def test_entity_without_a_label_is_rejected_or_skipped(tmp_path: Path) -> None:
    text = "Q1,capital,Paris\nFrance,capital,Paris\n"
    with pytest.raises(BadData, match=r"Q1 has no label, only its id; it occurs in Q1 capital Paris"):
        opened(tmp_path, text, "facts.csv")
    graph = opened(tmp_path, text, "facts.csv", skip=True)
    assert [e.label for e in graph.subjects("capital")] == ["France"]


def test_relation_without_a_label_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="relation P36 has no label"):
        opened(tmp_path, "France,P36,Paris\n", "facts.csv")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("a,b\n", "f.csv", r"line 1: 2 cells instead of 3"),
        ("a,,c\n", "f.csv", r"line 1: relation is blank"),
        ("subject,relation,object,colour\n", "f.csv", r"unknown column 'colour'"),
        ("subject,relaton,object\n", "f.csv", r"unknown column 'relaton'"),
        ("subject,object\n", "f.csv", r"no column 'relation'"),
        ("a,b,c\na,staff,number:many\n", "f.csv", r"line 2: 'many' is not a number"),
        ("a,b,date:soon\n", "f.csv", r"line 1: 'soon' is not a date"),
        ("number:3,b,c\n", "f.csv", r"line 1: the subject 'number:3' is a literal"),
        (b"a,b,\xff\n", "f.csv", r"not text in UTF-8"),
        ("", "f.csv", r"contains no fact"),
        (b'<http://x/a> <http://x/b> "\xff" .\n', "f.nt", r"not RDF in UTF-8"),
        ("<http://x/a> <http://x/b> .\n", "f.nt", r"line 1: not RDF in UTF-8"),
        ("a b c", "f.xml", r"unknown file format"),
        ("{}", "f.json", r"is not a knowledge graph"),
    ],
)  # fmt: skip
def test_invalid_file_error_names_the_position(tmp_path: Path, text: str | bytes, name: str, said: str) -> None:
    with pytest.raises(BadData, match=said):
        opened(tmp_path, text, name)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("not toml", "is not TOML"),
        ("x = 1", "contains no relation"),
        ("[relations.works-for]\nclose = 'x'", "relation works-for: unknown field 'close'"),
        ("[relations.works-for]\ncloze = 'x'", "cloze needs exactly one"),
        ("[relations.works-for]\nfunctional = 1", "functional must be true or false"),
        ("[relations.works-for]\ninverse = 'employs'", "unknown inverse 'employs'"),
        ("[relations.salary]", "no fact of relation 'salary'"),
    ],
)
def test_invalid_relation_table_error_names_the_relation(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(BadData, match=said):
        opened(tmp_path, CSV, "facts.csv", table)


def test_atlas_is_opened_by_name() -> None:
    assert open_graph("atlas").graph is load_atlas()
    with pytest.raises(BadData, match="graph 'nowhere' does not exist"):
        open_graph("nowhere")
