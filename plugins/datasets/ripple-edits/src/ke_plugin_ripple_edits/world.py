"""One edit, and the graph as it is once it is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import Entity
from ke_plugin_ripple_edits.rules import Rules

Place = tuple[str, str]
"""Subject and relation, by key: where a fact stands."""
BARE = re.compile(r"[QP][1-9]\d*\Z")


@frozen(kw_only=True)
class Lookup:
    """A fact that was read on the way, edited or not."""

    subject: Entity
    relation: str
    objects: tuple[Entity, ...]

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.subject.key, self.relation


@frozen(kw_only=True)
class PlannedEdit:
    """An edit: (subject, relation) gets the object ``new``.

    ``old`` are its objects before; where a subject may have several, they stay.
    """

    subject: Entity
    relation: str
    new: Entity
    old: tuple[Entity, ...]
    functional: bool

    @property
    def place(self) -> Place:
        """What is edited."""
        return self.subject.key, self.relation


@frozen(kw_only=True, slots=False)
class RippleWorld:
    """Reads facts as they are after the edit."""

    graph: KnowledgeGraph
    rules: Rules
    plan: PlannedEdit

    @cached_property
    def inverse(self) -> str | None:
        """The relation that says the edited one backwards."""
        return self.rules.inverse(self.plan.relation)

    @cached_property
    def affected(self) -> frozenset[Place]:
        """Where facts change, or may: no other case may edit them or rest on them."""
        plan, rules = self.plan, self.rules
        found = {(plan.subject.key, name) for name in rules.touched(plan.relation)}
        found |= {(plan.new.key, name) for name in rules.touched_object(plan.relation)}
        found |= {(old.key, self.inverse) for old in plan.old if self.inverse and plan.functional}
        return frozenset(found)

    def objects(self, subject: Entity, relation: str) -> tuple[Entity, ...]:
        """What the subject is related to after the edit; what rules derive is not in it."""
        plan = self.plan
        found = self.graph.objects(subject, relation) if relation in self.graph.links else ()
        if (subject.key, relation) == plan.place:
            return (plan.new,) if plan.functional else _with(found, plan.new)
        if relation == self.inverse and subject == plan.new:
            return (plan.subject,) if self.graph.links[relation].functional else _with(found, plan.subject)
        if relation == self.inverse and subject in plan.old and plan.functional:
            return tuple(entity for entity in found if entity != plan.subject)
        return found

    def before(self, way: str) -> tuple[Entity, ...]:
        """Where the same walk ended before the edit: from an old object instead of the new one."""
        start, *steps = way.split("/")
        found = (self.plan.subject,) if start == "subject" else self.plan.old
        for name in steps:
            relation = self.rules.key(name)
            known = relation in self.graph.links
            found = tuple(end for entity in found for end in (self.graph.objects(entity, relation) if known else ()))
        return found

    def walk(self, way: str) -> tuple[tuple[Entity, ...], tuple[Lookup, ...]]:
        """Where a walk such as ``subject/father/child`` ends, and the facts on the way."""
        start, *steps = way.split("/")
        found: tuple[Entity, ...] = (self.plan.subject,) if start == "subject" else (self.plan.new,)
        read: list[Lookup] = []
        for name in steps:
            relation = self.rules.key(name)
            rows = [Lookup(subject=s, relation=relation, objects=self.objects(s, relation)) for s in found]
            read += [row for row in rows if row.objects]
            found = tuple(dict.fromkeys(entity for row in rows for entity in row.objects))
        return found, tuple(read)


def _with(found: tuple[Entity, ...], more: Entity) -> tuple[Entity, ...]:
    return found if more in found else (*found, more)


class UniqueNames:
    """Which names of a graph's entities stand for one thing only."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    def clear(self, entity: Entity) -> bool:
        """Whether the label is one, and no other thing's label or alias."""
        return bool(entity.label.strip()) and not BARE.match(entity.label) and self.own(entity.label, entity)

    def own(self, name: str, entity: Entity) -> bool:
        """Whether nothing else is called that."""
        return self._owners.get(name.casefold(), entity.key) == entity.key

    @cached_property
    def _owners(self) -> dict[str, str | None]:
        """Name to the key of its only bearer; None where there are several."""
        found: dict[str, str | None] = {}
        for entity in things(self._graph):
            for name in {name.casefold() for name in entity.names}:
                found[name] = entity.key if found.get(name, entity.key) == entity.key else None
        return found


def things(graph: KnowledgeGraph) -> Iterator[Entity]:
    """Every entity that relations join, by kind."""
    kinds: Iterable[str] = dict.fromkeys(kind for link in graph.links.values() for kind in (link.subject, link.object))
    for kind in kinds:
        yield from graph.entities(kind)
