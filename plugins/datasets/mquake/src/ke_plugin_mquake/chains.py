"""Chains of relations through a graph, in the world as it is and in one where some facts are others.

The sanity rules of the paper's section 3.1, for any graph: relations that give one object; of which the next one can
be asked; none twice, nor with its inverse; no entity twice. Its rules by kind (a country in the last two hops only)
are of its 37 relations and are left to the table of relations that goes with a graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import field, frozen

from ke_benchmarks.graph import KnowledgeGraph, Link
from ke_benchmarks.graph.base import LITERALS
from ke_core.plugin import Entity

PATHS = 3000  # sequences of relations that are looked at, of one length
ASKS = 40  # draws for a new object


@frozen(kw_only=True)
class ChainHop:
    """One step: whose fact, of which relation, what it gives, and what it gave before if an edit changed it."""

    subject: Entity
    relation: str
    object: Entity
    old: Entity | None = None


@frozen(kw_only=True, slots=False)
class WalkableGraph:
    """What may be walked on: the relations that do, and the entities that are known well enough.

    ``popular``: which share of the entities with facts of these relations, those in the most facts first.
    """

    graph: KnowledgeGraph
    seed: int
    popular: float = 1.0
    chosen: tuple[str, ...] = ()
    _heads: dict[str, tuple[str, ...]] = field(factory=dict)

    @cached_property
    def links(self) -> Mapping[str, Link]:
        """Relations with one object that is a thing; one that is its own inverse would say an edit backwards too."""
        return {
            name: link
            for name, link in self.graph.links.items()
            if link.functional
            and link.object not in LITERALS
            and link.inverse != name
            and (not self.chosen or name in self.chosen)
        }

    def paths(self, hops: int) -> list[tuple[str, ...]]:
        """Sequences of so many relations, in an order drawn by lot; at most ``PATHS``."""
        found: list[tuple[str, ...]] = []
        for path in self._longer((), hops):
            found.append(path)
            if len(found) == PATHS:
                break
        return sorted(found, key=lambda path: self.rank("path", *path))

    def heads(self, relation: str) -> tuple[str, ...]:
        """Known subjects of the relation, in an order drawn by lot."""
        if relation not in self._heads:
            keys = (s.key for s in self.graph.subjects(relation))
            known = [key for key in keys if self.known(key)]
            self._heads[relation] = tuple(sorted(known, key=lambda key: self.rank("head", relation, key)))
        return self._heads[relation]

    def known(self, entity: str) -> bool:
        """Whether it is one of the popular ones."""
        return self.popular >= 1 or self.graph.popularity(entity) >= self._least

    def rank(self, *parts: str) -> str:
        """A place in an order that looks drawn by lot and depends on nothing but the seed and the words (M3)."""
        return hashlib.sha256("\x1f".join((str(self.seed), *parts)).encode()).hexdigest()

    def number(self, *parts: str) -> int:
        """A whole number drawn in the same way."""
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
    """Which facts are edited, and to what: (subject, relation) to a new object, or None where it stays.

    One world for all cases, so that no case edits what another rests on. Of a relation and its inverse the world uses
    one side for half of the facts and the other side for the rest, and new objects are of the same half: after "The
    capital of France is Lima" nobody asks which country has Lima as its capital.
    """

    ground: WalkableGraph
    share: float
    _edits: dict[tuple[str, str], Entity | None] = field(factory=dict)

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """The new object; None if the fact stays, or nothing else could stand there."""
        del chain, at
        where = subject.key, relation
        if where not in self._edits:
            drawn = self.ground.number("edit", *where) % 10_000 < self.share * 10_000
            self._edits[where] = draw(self.ground, subject, relation, self.uses) if drawn else None
        return self._edits[where]

    def uses(self, subject: str, relation: str) -> bool:
        """Whether the world asks this at all."""
        graph, link = self.ground.graph, self.ground.graph.links[relation]
        if link.inverse is None:
            return True
        first = relation < link.inverse
        side = subject if first else getattr(graph.object(subject, relation), "key", "")
        return (self.ground.number("side", side) % 2 == 0) == first


@frozen(kw_only=True)
class IndependentEdits:
    """Each case draws its own edits, as in the paper (section 3.2): so many of its hops, wherever they lie."""

    ground: WalkableGraph

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """The new object, if this hop of this chain is one of the edited ones."""
        hops = range(len(chain) - 1)
        count = 1 + self.ground.number("count", *chain) % len(hops)
        order = sorted(hops, key=lambda hop: self.ground.rank("which", *chain, str(hop)))
        return draw(self.ground, subject, relation, self.uses, *chain) if at in order[:count] else None

    def uses(self, _subject: str, _relation: str) -> bool:
        """Everything."""
        return True


@frozen(kw_only=True)
class RealChanges:
    """The facts that a newer graph states differently: real changes (section 3.4)."""

    ground: WalkableGraph
    newer: KnowledgeGraph

    def changed(self, subject: Entity, relation: str, chain: Sequence[str], at: int) -> Entity | None:
        """What the newer graph says, where it says another thing alone."""
        del chain, at
        if relation not in self.newer.links:
            return None
        new, old = self.newer.object(subject, relation), self.ground.graph.object(subject, relation)
        return new if new and (old is None or new.key != old.key) else None

    def uses(self, _subject: str, _relation: str) -> bool:
        """Everything."""
        return True


Edits = EditedFacts | IndependentEdits | RealChanges
Uses = Callable[[str, str], bool]


def draw(ground: WalkableGraph, subject: Entity, relation: str, uses: Uses, *salt: str) -> Entity | None:
    """Another object that occurs with the relation: of the old one's kind, no name in common, not the subject."""
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
            continue  # a statement is the cloze and the bare label
        if not names & old_names and graph.kind(found) == ground.links[relation].object:
            return found
    return None


def walk(edits: Edits, head: Entity, path: Sequence[str], *, after: bool) -> tuple[ChainHop, ...] | None:
    """The chain from ``head``; None if it breaks off, comes back to where it was, or is not to be asked."""
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
