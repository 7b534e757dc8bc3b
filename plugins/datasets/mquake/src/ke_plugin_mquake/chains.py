"""Chains of relations through a graph, in the original world and in a world with edited facts.

The rules of the paper's section 3.1, for any graph: each relation has one object; the next relation applies to that
object; no relation occurs twice or with its inverse; no entity occurs twice. The paper's rules by type (a country in
the last two hops only) apply to its 37 relations; put them into the graph's table of relations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import field, frozen

from ke_benchmarks.graph import KnowledgeGraph, Link
from ke_benchmarks.graph.base import LITERALS
from ke_core.plugin import Entity

PATHS = 3000  # maximum number of sequences of relations of one length
ASKS = 40  # attempts to sample a new object


@frozen(kw_only=True)
class ChainHop:
    """One step of a chain: subject, relation, object, and the original object if an edit changed it."""

    subject: Entity
    relation: str
    object: Entity
    old: Entity | None = None


@frozen(kw_only=True, slots=False)
class WalkableGraph:
    """A graph with the relations and entities that may occur in chains.

    ``popular``: fraction of the entities with facts of these relations, starting with those in the most facts.
    """

    graph: KnowledgeGraph
    seed: int
    popular: float = 1.0
    chosen: tuple[str, ...] = ()
    _heads: dict[str, tuple[str, ...]] = field(factory=dict)

    @cached_property
    def links(self) -> Mapping[str, Link]:
        """Relations with one object that is an entity. Self-inverse relations are excluded: an edit would change both
        directions.
        """
        return {
            name: link
            for name, link in self.graph.links.items()
            if link.functional
            and link.object not in LITERALS
            and link.inverse != name
            and (not self.chosen or name in self.chosen)
        }

    def paths(self, hops: int) -> list[tuple[str, ...]]:
        """Return up to ``PATHS`` sequences of ``hops`` relations, in pseudo-random order."""
        found: list[tuple[str, ...]] = []
        for path in self._longer((), hops):
            found.append(path)
            if len(found) == PATHS:
                break
        return sorted(found, key=lambda path: self.rank("path", *path))

    def heads(self, relation: str) -> tuple[str, ...]:
        """Return the popular subjects of the relation, in pseudo-random order."""
        if relation not in self._heads:
            keys = (s.key for s in self.graph.subjects(relation))
            known = [key for key in keys if self.known(key)]
            self._heads[relation] = tuple(sorted(known, key=lambda key: self.rank("head", relation, key)))
        return self._heads[relation]

    def known(self, entity: str) -> bool:
        """Return whether the entity is one of the popular ones."""
        return self.popular >= 1 or self.graph.popularity(entity) >= self._least

    def rank(self, *parts: str) -> str:
        """Return a pseudo-random sort key that depends on the seed and the words only."""
        return hashlib.sha256("\x1f".join((str(self.seed), *parts)).encode()).hexdigest()

    def number(self, *parts: str) -> int:
        """Return a pseudo-random integer that depends on the seed and the words only."""
        return int(self.rank(*parts)[:12], 16)

    @cached_property
    def _least(self) -> int:
        counts = {s.key: self.graph.popularity(s) for name in self.links for s in self.graph.subjects(name)}
        ordered = sorted(counts.values(), reverse=True)
        return ordered[max(0, round(self.popular * len(ordered)) - 1)] if ordered else 0

    def _longer(self, path: tuple[str, ...], hops: int) -> Iterator[tuple[str, ...]]:
        if len(path) == hops:
            yield path
            return
        for name in sorted(self.links, key=lambda name: self.rank("next", *path, name)):
            if not path or self._follows(path, name):
                yield from self._longer((*path, name), hops)

    def _follows(self, path: tuple[str, ...], name: str) -> bool:
        link, last = self.links[name], self.links[path[-1]]
        backwards = {self.links[one].inverse for one in path} | {n for n, k in self.links.items() if k.inverse in path}
        return link.subject == last.object and name not in path and name not in backwards


@frozen(kw_only=True)
class EditedFacts:
    """The edits of one world: (subject, relation) to a new object, or None if the fact is not edited.

    All cases share the world, so no case edits a fact that another depends on. Of a relation and its inverse, half of
    the facts use only one and the other half only the other, and new objects come from the same half: after "The
    capital of France is Lima", no question asks which country has Lima as its capital.
    """

    ground: WalkableGraph
    share: float
    _edits: dict[tuple[str, str], Entity | None] = field(factory=dict)

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """Return the new object, or None if the fact is not edited or has no alternative object."""
        del chain, at
        where = subject.key, relation
        if where not in self._edits:
            drawn = self.ground.number("edit", *where) % 10_000 < self.share * 10_000
            self._edits[where] = sample_object(self.ground, subject, relation, self.uses) if drawn else None
        return self._edits[where]

    def uses(self, subject: str, relation: str) -> bool:
        """Return whether questions may use this fact."""
        graph, link = self.ground.graph, self.ground.graph.links[relation]
        if link.inverse is None:
            return True
        first = relation < link.inverse
        side = subject if first else getattr(graph.object(subject, relation), "key", "")
        return (self.ground.number("side", side) % 2 == 0) == first


@frozen(kw_only=True)
class IndependentEdits:
    """Separate edits for each case, as in the paper (section 3.2): a sampled number of hops at sampled positions."""

    ground: WalkableGraph

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """Return the new object if this hop of this chain is edited."""
        hops = range(len(chain) - 1)
        count = 1 + self.ground.number("count", *chain) % len(hops)
        order = sorted(hops, key=lambda hop: self.ground.rank("which", *chain, str(hop)))
        return sample_object(self.ground, subject, relation, self.uses, *chain) if at in order[:count] else None

    def uses(self, _subject: str, _relation: str) -> bool:
        """Return True: all facts are used."""
        return True


@frozen(kw_only=True)
class RealChanges:
    """Facts that differ in a newer graph: real changes (section 3.4)."""

    ground: WalkableGraph
    newer: KnowledgeGraph

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """Return the newer graph's object if it is unique and different."""
        del chain, at
        if relation not in self.newer.links:
            return None
        new, old = self.newer.object(subject, relation), self.ground.graph.object(subject, relation)
        return new if new and (old is None or new.key != old.key) else None

    def uses(self, _subject: str, _relation: str) -> bool:
        """Return True: all facts are used."""
        return True


Edits = EditedFacts | IndependentEdits | RealChanges
Uses = Callable[[str, str], bool]


def sample_object(ground: WalkableGraph, subject: Entity, relation: str, uses: Uses, *salt: str) -> Entity | None:
    """Return another object of the relation: of the same type, without a common name, and not the subject."""
    graph, heads = ground.graph, ground.heads(relation)
    old = {found.key for found in graph.objects(subject, relation)}
    old_names = {name.casefold() for key in (*old, subject.key) for name in graph.entity(key).names}
    for attempt in range(ASKS if heads else 0):
        holder = heads[ground.number("to", *salt, relation, subject.key, str(attempt)) % len(heads)]
        found = graph.object(holder, relation)
        if found is None or found.key in old or not ground.known(found.key) or not uses(holder, relation):
            continue
        names = {name.casefold() for name in found.names}
        if graph.node(found.key).article:
            continue  # a statement is the cloze and the label
        if not names & old_names and graph.kind(found) == ground.links[relation].object:
            return found
    return None


def walk(edits: Edits, head: Entity, path: Sequence[str], *, after: bool) -> tuple[ChainHop, ...] | None:
    """Return the chain from ``head``, or None if it is incomplete, has a cycle, or contains an unusable fact."""
    graph, seen, hops = edits.ground.graph, {head.key}, list[ChainHop]()
    subject = head
    for at, relation in enumerate(path):
        if not edits.uses(subject.key, relation):
            return None
        old = graph.object(subject, relation)
        new = edits.changed(subject, relation, (head.key, *path), at) if after else None
        found = new or old
        if found is None or old is None or found.key in seen or not edits.ground.known(found.key):
            return None
        seen.add(found.key)
        hops.append(ChainHop(subject=subject, relation=relation, object=found, old=old if new else None))
        subject = found
    return tuple(hops)
