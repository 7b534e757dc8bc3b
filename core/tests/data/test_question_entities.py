"""Oracle material made from cases: what each question is about."""

from __future__ import annotations

from ke_benchmarks import question_entities
from ke_core.spec.facts import Edit, Entity, Fact, Relation
from ke_core.spec.queries import Case, Gold, Probe, Query

YORK, CITY, USA = Entity(label="New York"), Entity(label="New York City"), Entity(label="USA")
RELATION = Relation(label="is in")
GOLD = Gold(entities=(USA,))


def query(name: str, *texts: str, hops: tuple[Query, ...] = ()) -> Query:
    return Query(id=name, texts=texts, gold=GOLD, hops=hops)


def fact(subject: Entity, other: Entity) -> Fact:
    return Fact(subject=subject, relation=RELATION, objects=(other,))


HOPS = (query("one", "Where is New York City?"), query("two", "Which country is New York in?"))
CASE = Case(
    id="1",
    edits=(Edit(id="e", statement="s", after=fact(USA, YORK)),),
    probes=(
        Probe(id="hops", aspect="instance", queries=HOPS),
        Probe(id="edit", aspect="efficacy", queries=(query("edit", "Where is USA?"),)),
        Probe(
            id="multi",
            aspect="multi-hop",
            queries=(query("multi", "In which country of USA is New York City?", "Whose is it?", hops=HOPS),),
        ),
    ),
    facts_before=(fact(CITY, YORK), fact(YORK, USA)),
)


def test_question_entity_is_the_head_of_the_chain_or_the_named_subject() -> None:
    assert question_entities([CASE]) == {
        "Where is New York City?": "New York City.",
        "Which country is New York in?": "New York.",
        "Where is USA?": "USA.",
        "In which country of USA is New York City?": "New York City.",
    }


def test_entity_type_is_shown_if_known() -> None:
    found = question_entities([CASE], lambda entity: "a city" if entity is CITY else "")
    assert found["Where is New York City?"] == "New York City, a city."
    assert found["Which country is New York in?"] == "New York."
