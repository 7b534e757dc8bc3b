"""One edit, and the graph after it."""

from __future__ import annotations

import re
from functools import cached_property

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import Entity
from ke_plugin_ripple_edits.rules import Rules

Place = tuple[str, str]
"""Subject and relation, by key."""
BARE = re.compile(r"[QP][1-9]\d*\Z")


@frozen(kw_only=True)
class Lookup:
    """A fact that was read on a walk, edited or not."""

    subject: Entity
    relation: str
    objects: tuple[Entity, ...]

    @property
    def place(self) -> Place:
        """Subject and relation of the fact."""
        return self.subject.key, self.relation


@frozen(kw_only=True)
class PlannedEdit:
    """An edit: (subject, relation) gets the object ``new``.

    ``old``: its objects before. If a subject may have several, they stay.
    """

    subject: Entity
    relation: str
    new: Entity
    old: tuple[Entity, ...]
    functional: bool

    @property
    def place(self) -> Place:
        """Subject and relation of the edit."""
        return self.subject.key, self.relation


@frozen(kw_only=True, slots=False)
class RippleWorld:
    """Reads facts after the edit."""

    graph: KnowledgeGraph
    rules: Rules
    plan: PlannedEdit

    @cached_property
    def inverse(self) -> str | None:
        """The inverse of the edited relation."""
        return self.rules.inverse(self.plan.relation)

    @cached_property
    def affected(self) -> frozenset[Place]:
        """Facts that change or may change: no other case may edit or depend on them."""
        plan, rules = self.plan, self.rules
        found = {(plan.subject.key, name) for name in rules.touched(plan.relation)}
        found |= {(plan.new.key, name) for name in rules.touched_object(plan.relation)}
        found |= {(old.key, self.inverse) for old in plan.old if self.inverse and plan.functional}
        return frozenset(found)

    def objects(self, subject: Entity, relation: str) -> tuple[Entity, ...]:
        """Return the objects of the subject after the edit, without those derived by rules."""
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
        """Return the end of the same walk before the edit: from an old object instead of the new one."""
        start, *steps = way.split("/")
        found = (self.plan.subject,) if start == "subject" else self.plan.old
        for name in steps:
            relation = self.rules.key(name)
            known = relation in self.graph.links
            found = tuple(end for entity in found for end in (self.graph.objects(entity, relation) if known else ()))
        return found

    def walk(self, way: str) -> tuple[tuple[Entity, ...], tuple[Lookup, ...]]:
        """Return the end of a walk such as ``subject/father/child``, and the facts on it."""
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
    """Names in a graph that belong to one entity only."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    def clear(self, entity: Entity) -> bool:
        """Return whether the label is a real one, and not another entity's label or alias."""
        return bool(entity.label.strip()) and not BARE.match(entity.label) and self.own(entity.label, entity)

    def own(self, name: str, entity: Entity) -> bool:
        """Return whether no other entity has this name."""
        return self._owners.get(name.casefold(), entity.key) == entity.key

    @cached_property
    def _owners(self) -> dict[str, str | None]:
        """Name to the key of its entity; None if there are several."""
        found: dict[str, str | None] = {}
        for entity in self._graph.things():
            for name in {name.casefold() for name in entity.names}:
                found[name] = entity.key if found.get(name, entity.key) == entity.key else None
        return found
