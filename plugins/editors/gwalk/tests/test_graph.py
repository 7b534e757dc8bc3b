"""The graph of edits: look-up of edges, hidden edges, changes, and linking of names."""

from __future__ import annotations

import itertools

import pytest
from attrs import evolve

from ke_core.plugin import Edit, Entity, Fact, UnsupportedEdit, contradicting
from ke_plugin_gwalk.graph import EditGraph, HiddenEdges, folded, triple_of, unsupported_reason
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session

NOTHING: frozenset[str] = frozenset()
ALL = HiddenEdges()


def graph_of(edits=(), *, released=False, aliases=None) -> EditGraph:
    graph = EditGraph(WordEncoder(), released=released, aliases=aliases)
    graph.change(add=edits)
    return graph


def run(procedure):
    """Return the result of a procedure that only requests look-ups."""
    return make_session(ScriptedModel([])).engine.run({"look-up": procedure})["look-up"]


@pytest.mark.parametrize(("owner", "on_path", "edited"), list(itertools.product([True, False], repeat=3)))
def test_edges_that_contradict_the_path_are_absent_except_the_cases_own(
    edits, edit_of, relations, owner, on_path, edited
):
    """``hidden`` is computed as in a run."""
    mira, _boland = edits
    graph = graph_of(edits)
    path = (edit_of(relations[0], "Mira Toll", "Aland").after,) if on_path else ()
    if owner and edited:
        path = (mira.after,) if on_path else ()
    own = frozenset({mira.id}) if owner else NOTHING
    hidden = contradicting(path, {edit.id: edit for edit in edits}) - own
    found = graph.find("Mira Toll", "P27", hidden)
    assert (found is None) == (on_path and not owner)


def test_other_edges_of_the_subject_stay_visible(edit_of, relations) -> None:
    arabic, other = edit_of(relations[1], "US", "Arabic"), edit_of(relations[0], "US", "X")
    path = (edit_of(relations[1], "US", "English").after,)
    hidden = contradicting(path, {edit.id: edit for edit in (arabic, other)})
    graph = graph_of([arabic, other])
    assert graph.find("US", "P37", hidden) is None
    assert graph.find("US", "P27", hidden).object == "X"


def test_first_visible_edge_is_found(edit_of, relations) -> None:
    for names in (("b", "a"), ("a", "b")):
        edits = [edit_of(relations[0], "Mira Toll", name, name=name) for name in names]
        graph = graph_of(edits)
        assert graph.find("Mira Toll", "P27", NOTHING).id == names[0]
        assert graph.find("Mira Toll", "P27", frozenset(names[:1])).id == names[1]
        assert graph.find("Mira Toll", "P27", frozenset(names)) is None


def test_unknown_names_and_relations_are_no_error(edits) -> None:
    graph = graph_of(edits[:1])
    assert graph.find("Nobody", "P999", NOTHING) is None
    assert graph.question("P999", "Nobody", ALL) is None
    assert run(graph_of().relation("citizenship", 0.0, ALL)) == (None, 0.0)
    assert run(graph_of().link("Nobody", ALL)) == "Nobody"


def test_edges_are_hidden_by_edit_id_not_by_label(edit_of, relations) -> None:
    """The graph compares entities by name, so two entities with one name share a node."""
    car = edit_of(relations[0], "Ford Mustang", "Fiat", name="car")
    other = evolve(edit_of(relations[0], "Ford Mustang", "Nintendo", name="other"))
    graph = graph_of([car, other])
    assert graph.find("Ford Mustang", "P27", frozenset({"car"})).id == "other"


def test_relations_are_found_by_name_or_sentence(edits) -> None:
    graph = graph_of(edits)
    for phrase, key in {"official language": "P37", "is a citizen of": "P27", "country of citizenship": "P27"}.items():
        assert run(graph.relation(phrase, 0.9, ALL))[0] == key
    assert run(graph.relation("favourite colour", 0.9, ALL))[0] is None
    released = graph_of(edits, released=True)
    assert sorted(text for _id, text in released.relations.facts) == [
        "The official language of {} is",
        "{} is a citizen of",
    ]


def test_removed_edits_leave_nothing_behind(edits) -> None:
    graph = graph_of(edits)
    assert graph.size == {"facts": 2, "relations": 2, "entities": 5}
    graph.change(remove=["mira", "not there"])
    assert graph.size == {"facts": 1, "relations": 1, "entities": 3}
    assert run(graph.relation("country of citizenship", 0.5, ALL))[0] is None
    assert graph.find("Mira Toll", "P27", NOTHING) is None
    assert run(graph.link("mira toll", ALL)) == "mira toll"
    assert graph.question("P27", "x", ALL) is None
    graph.change(add=edits)
    assert graph.size == {"facts": 2, "relations": 2, "entities": 5}
    graph.change(add=edits)
    assert graph.size["facts"] == 2
    graph.change(remove=["boland", "mira"])
    assert graph.size == {"facts": 0, "relations": 0, "entities": 0}
    assert len(graph.relations) == 0


@pytest.mark.parametrize("broken", ["relations", "entities"])
def test_failed_embedding_changes_nothing(edits, monkeypatch, broken) -> None:
    mira, boland = edits
    graph = graph_of([mira], aliases={})
    other = evolve(boland, id=mira.id)

    class Full:
        id = "full"

        def embed(self, _texts):
            raise MemoryError

    monkeypatch.setattr(getattr(graph, broken), "encoder", Full())
    with pytest.raises(MemoryError):
        graph.change(add=[other], remove=[mira.id])
    assert graph.find("Mira Toll", "P27", NOTHING).id == mira.id
    assert graph.size == {"facts": 1, "relations": 1, "entities": 3}
    assert len(graph.relations) == len(graph_of([mira]).relations)


def test_reused_id_is_the_new_edge(edits) -> None:
    mira, boland = edits
    graph = graph_of([mira])
    graph.change(add=[evolve(boland, id=mira.id)], remove=[mira.id])
    other = graph_of([evolve(boland, id=mira.id)])
    assert (graph.size, sorted(graph.relations.facts)) == (other.size, sorted(other.relations.facts))
    assert graph.find("Mira Toll", "P27", NOTHING) is None


def test_shared_relation_stays_until_its_last_edit_is_removed(edit_of, relations) -> None:
    one, two = (edit_of(relations[0], name, "Boland") for name in ("One", "Two"))
    graph = graph_of([one, two])
    graph.change(remove=[one.id])
    assert run(graph.relation("country of citizenship", 0.9, ALL))[0] == "P27"
    assert run(graph.link("boland", ALL)) == "Boland"


def test_question_is_the_relations_template_or_the_edits_question(edits, relations) -> None:
    graph = graph_of(edits)
    assert graph.question("P27", "Xena", ALL) == "What is the country of Xena?"
    assert graph.question("P37", "Xena", ALL) == "Which official language has Xena?"
    bare = evolve(edits[1], question=None)
    assert graph_of([bare]).question("P37", "Xena", ALL) is None
    twice = evolve(edits[1], question="Boland, o Boland, what is thy language?")
    assert graph_of([twice]).question("P37", "Xena", ALL) is None


@pytest.mark.parametrize(
    ("name", "linked"),
    [("Boland", "Boland"), ("boland.", "Boland"), ("the B\u00f3land", "Boland"), ("Bo land", "Bo land"), ("", "")],
)
def test_names_match_despite_spelling_differences(edits, name, linked) -> None:
    assert run(graph_of(edits).link(name, ALL)) == linked
    assert run(graph_of(edits, released=True).link(name, ALL)) == name


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("The U.S.A.", "usa"),
        ("The", "the"),
        ("...", "..."),
        ("K\u00f6ln", "koln"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("Guns N\u2019 Roses!", "guns n roses"),
        ("O\u2019Brien", "obrien"),
    ],
)
def test_folded(name, plain) -> None:
    assert folded(name) == plain


@pytest.mark.parametrize(
    ("one", "other"),
    [("\u092a\u093e\u0932", "\u092a\u0940\u0932"), ("\u304c\u304d", "\u304b\u304d"), ("C++", "C#"), ("C", "C#")],
    ids=["vowel signs", "voicing marks", "signs", "a sign"],
)
def test_folding_keeps_different_names_apart(one, other) -> None:
    assert folded(one) != folded(other)


def test_ambiguous_spelling_is_not_linked(edit_of, relations) -> None:
    graph = graph_of([edit_of(relations[0], name, "Aland", name=name) for name in ("Tora Bey", "TORA BEY")])
    assert run(graph.link("tora bey", ALL)) == "tora bey"
    assert run(graph.link("TORA BEY", ALL)) == "TORA BEY"


def test_alias_of_a_near_entity_is_linked(edits) -> None:
    aliases = {"Boland": ("Kingdom of Boland", "BO"), "Elsewhere": ("EW",)}
    graph = graph_of(edits, aliases=aliases)
    assert run(graph.link("Kingdom of Boland", ALL)) == "Boland"
    assert run(graph.link("BO", ALL)) == "Boland"
    assert run(graph.link("EW", ALL)) == "EW"
    assert run(graph_of(edits).link("Kingdom of Boland", ALL)) == "Kingdom of Boland"
    graph.change(remove=["mira", "boland"])
    assert run(graph.link("BO", ALL)) == "BO"


def test_aliases_of_the_edits_are_not_used(edits) -> None:
    edit = evolve(edits[1], after=evolve(edits[1].after, subject=Entity(label="Boland", aliases=("Old Boland",))))
    assert run(graph_of([edit]).link("Old Boland", ALL)) == "Old Boland"


@pytest.mark.parametrize("objects", [0, 2])
def test_edits_without_exactly_one_object_are_refused(edits, objects) -> None:
    after = edits[0].after
    many = evolve(edits[0], after=Fact(subject=after.subject, relation=after.relation, objects=after.objects * objects))
    assert unsupported_reason(many)
    with pytest.raises(UnsupportedEdit, match="exactly one object"):
        triple_of(many, released=False)
    with pytest.raises(UnsupportedEdit, match="no triple"):
        triple_of(Edit(id="t", statement="text"), released=False)
    graph = graph_of()
    with pytest.raises(UnsupportedEdit):
        graph.change(add=[edits[1], many])
    assert graph.size["facts"] == 0


def test_hidden_edges_leave_nothing_behind(edits, edit_of, relations) -> None:
    """Names, wordings and questions of a hidden edge are not found, unless another edge has them."""
    country, language = relations
    named = evolve(edit_of(country, "The Ford", "Boland", name="ford"), question="Which country has The Ford?")
    graph = graph_of([*edits, named], aliases={"The Ford": ("Tin Lizzie",)})
    unseen = graph.unseen(frozenset({"ford", "boland"}))
    assert run(graph.link("the ford", ALL)) == "The Ford"
    assert run(graph.link("Tin Lizzie", ALL)) == "The Ford"
    assert run(graph.link("the ford", unseen)) == "the ford"
    assert run(graph.link("Tin Lizzie", unseen)) == "Tin Lizzie"
    assert run(graph.link("boland", unseen)) == "Boland"
    assert run(graph.relation("official language", 0.5, ALL))[0] == language.key
    assert run(graph.relation("official language", 0.5, unseen))[0] is None
    assert run(graph.relation("country of citizenship", 0.5, unseen))[0] == country.key
    assert graph.question(language.key, "Xena", unseen) is None
    assert graph.question(country.key, "Xena", unseen) == "What is the country of Xena?"
