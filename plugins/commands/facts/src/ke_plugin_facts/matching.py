"""Find the facts of a file in a knowledge graph, by their subjects, prompts and targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ke_benchmarks.graph import LITERALS, Graph, GraphEdit, Node
from ke_core.plugin import SLOT, Entity
from ke_plugin_facts.fact_file import ManagedFact

Named = Mapping[str, Sequence[Entity]]
"""Entities by name."""


@frozen(kw_only=True)
class MatchedFact:
    """A fact with its edit of the graph, or the reason why it has none. ``about``: keys of entities that it names."""

    fact: ManagedFact
    about: frozenset[str] = frozenset()
    edit: GraphEdit | None = None
    reason: str = ""


def match_facts(facts: Sequence[ManagedFact], graph: Graph) -> tuple[list[MatchedFact], Graph]:
    """Return each fact with its edit, and the graph with the targets that it lacks.

    A fact is not matched if the graph lacks its subject, if no relation of the subject has its prompt, or if it
    contradicts another fact in other words.
    """
    named = _named(facts, graph)
    found = [_matched(fact, named, graph) for fact in facts]
    added = {
        one.edit.new.key: Node(entity=one.edit.new, kind=graph.links[one.edit.relation].object)
        for one in found
        if one.edit is not None and one.edit.new.key.startswith(OWN)
    }
    return list(_without_contradictions(found, graph)), graph.with_nodes(added)


OWN = "facts:"
"""The prefix of the keys of targets that the graph lacks."""


def _named(facts: Sequence[ManagedFact], graph: Graph) -> Named:
    """Return the entities of the graph with the names that the facts use."""
    names = {_name(name) for fact in facts for name in (_subject(fact), fact.given.target)}
    found: dict[str, list[Entity]] = {}
    for entity in graph.things():
        for name in names & {_name(name) for name in entity.names}:
            found.setdefault(name, []).append(entity)
    return found


def _matched(fact: ManagedFact, named: Named, graph: Graph) -> MatchedFact:
    name = _subject(fact)
    subjects, targets = named.get(_name(name), ()), named.get(_name(fact.given.target), ())
    match = MatchedFact(fact=fact, about=frozenset(entity.key for entity in (*subjects, *targets)))
    if not subjects:
        return evolve(match, reason=f"the graph has no entity called {name!r}" if name else "it names no subject")
    places = [(one, key) for one in subjects for key in graph.links if _requests(fact, one, key, graph)]
    if not places:
        own = [key for key, link in graph.links.items() if any(link.subject == graph.kind(one) for one in subjects)]
        return evolve(match, reason=f"no relation has its prompt: set relation to one of {', '.join(own)}")
    if len(places) > 1:
        return evolve(match, reason=f"the graph has several entities or relations for {fact.given.prompt!r}")
    ((subject, relation),) = places
    kind = graph.links[relation].object
    objects = [one for one in targets if graph.kind(one) == kind]
    if len(objects) > 1:
        return evolve(match, reason=f"the graph has several entities called {fact.given.target!r}")
    new = objects[0] if objects else _new(fact.given.target, kind)
    return evolve(match, edit=GraphEdit(subject=subject.key, relation=relation, new=new))


def _subject(fact: ManagedFact) -> str:
    after = fact.given.edit.after
    return after.subject.label if after is not None else ""


def _new(name: str, kind: str) -> Entity:
    """Return a target that the graph lacks: a literal, or a new entity."""
    return Entity(label=name, id=f"{kind}:{name}" if kind in LITERALS else f"{OWN}{name}")


def _requests(fact: ManagedFact, subject: Entity, key: str, graph: Graph) -> bool:
    """Return whether the fact is about this relation of the subject: it names it, or has the prompt of its cloze."""
    link = graph.links[key]
    if link.subject != graph.kind(subject):
        return False
    if fact.relation:
        return fact.relation in (key, link.relation.label)
    cloze = link.relation.cloze
    return cloze is not None and _words(cloze.replace(SLOT, _subject(fact))) == _words(fact.given.prompt)


def _without_contradictions(found: Sequence[MatchedFact], graph: Graph) -> Iterator[MatchedFact]:
    """Yield the facts, and for two targets of one functional relation the reason instead of the second edit."""
    first: dict[tuple[str, str], MatchedFact] = {}
    for one in found:
        edit = one.edit
        if edit is None or not graph.links[edit.relation].functional:
            yield one
            continue
        other = first.setdefault((edit.subject, edit.relation), one)
        if other.edit is not None and other.edit.new != edit.new:
            what = f"{edit.relation} is {other.fact.given.target!r} in {other.fact.id!r}"
            yield evolve(one, edit=None, reason=f"it contradicts another fact: {what}")
        else:
            yield one


def _name(name: str) -> str:
    """Return a name as it is compared, without its article."""
    return " ".join(_words(name))


def _words(text: str) -> list[str]:
    return [word for word in text.casefold().split() if word != "the"]
