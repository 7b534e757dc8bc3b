"""Which facts are edited, and to what (section 4.1, steps 1 and 2).

All edits together are one counterfactual world: no two touch the same facts, so that none of them undoes what
follows from another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise, zip_longest

from attrs import define, field

from ke_benchmarks.graph import BuildTools, KnowledgeGraph
from ke_core.plugin import Entity
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.rules import Rules
from ke_plugin_ripple_edits.world import Place, PlannedEdit, RippleWorld, UniqueNames

BUCKETS = 10
TRIPLES = 100_000
"""So many facts of a relation are read for its candidate objects (the paper's N_cand)."""
TRIED = 50
"""So many candidates are looked at for one edit."""


@define(kw_only=True)
class EditSampler:
    """Draws edits until nobody wants more."""

    graph: KnowledgeGraph
    rules: Rules
    config: RippleBuildConfig
    tools: BuildTools
    names: UniqueNames
    _pools: dict[str, Sequence[Entity]] = field(factory=dict)
    _taken: set[Place] = field(factory=set)

    def worlds(self) -> Iterator[RippleWorld]:
        """One edit a subject, each with the graph as it is after it."""
        for key in self._subjects():
            world = self._of(self.graph.entity(key))
            if world is not None:
                self._taken |= world.affected
                yield world

    @property
    def editable(self) -> tuple[str, ...]:
        """Relations between things, and those whose objects are dates or texts."""
        return tuple(
            key
            for key, link in self.graph.links.items()
            if link.relation.cloze and link.object != "number" and not self.rules.words(key).quiet
        )

    def _subjects(self) -> Iterator[str]:
        """Keys: in turn from ten buckets of equal size by how many facts a subject has, or from the last alone."""
        popular: dict[str, int] = {}
        for relation in self.editable:
            for subject in self.graph.subjects(relation):
                if subject.key not in popular:
                    popular[subject.key] = self.graph.popularity(subject)
        ordered = sorted(popular, key=lambda key: (popular[key], key))
        ends = [round(len(ordered) * at / BUCKETS) for at in range(BUCKETS + 1)]
        buckets = [ordered[low:high] for low, high in pairwise(ends)]
        wanted = buckets[-1:] if self.config.subset == "popular" else buckets
        drawn = [sorted(bucket, key=lambda key: self._lot("subject", key)) for bucket in wanted]
        return (key for key in chain.from_iterable(zip_longest(*drawn)) if key is not None)

    def _of(self, subject: Entity) -> RippleWorld | None:
        if not self.names.clear(subject):
            self.tools.dropped("the subject's label is missing, or another thing's name")
            return None
        own = [relation for relation in self.editable if self.graph.objects(subject, relation)]
        for relation in sorted(own, key=lambda relation: self._lot("relation", subject.key, relation)):
            plan = self._plan(subject, relation)
            if plan is None:
                continue
            world = RippleWorld(graph=self.graph, rules=self.rules, plan=plan)
            if not world.affected & self._taken:
                return world
        self.tools.dropped("no edit of the subject is free of the others")
        return None

    def _plan(self, subject: Entity, relation: str) -> PlannedEdit | None:
        objects = self.graph.objects(subject, relation)
        functional = self.graph.links[relation].functional
        if functional and len(objects) > 1:
            return None  # which of them the edit takes the place of, nobody could say
        if self.config.subset == "recent":
            new, old = objects[0], objects[1:]
        else:
            found = self._another(subject, relation, objects)
            if found is None:
                return None
            new, old = found, objects
        if not self.names.clear(new):
            return None
        return PlannedEdit(subject=subject, relation=relation, new=new, old=old, functional=functional)

    def _another(self, subject: Entity, relation: str, objects: Sequence[Entity]) -> Entity | None:
        """Another object of the same relation, and so of the same type (step 2)."""
        pool = self._pool(relation)
        taken = {name.casefold() for entity in (subject, *objects) for name in entity.names}
        inverse = self.rules.inverse(relation)
        start = int(self._lot("object", subject.key, relation)[:12], 16)
        for at in range(min(TRIED, len(pool))):
            new = pool[(start + at) % len(pool)]
            if taken & {name.casefold() for name in new.names} or not self.names.clear(new):
                continue
            if not self._taken & {(new.key, relation), (new.key, inverse or relation)}:
                return new
        return None

    def _pool(self, relation: str) -> Sequence[Entity]:
        """Objects of the relation, each once, in an order without meaning."""
        if relation not in self._pools:
            found: Mapping[str, Entity] = {
                entity.key: entity
                for subject in islice(self.graph.subjects(relation), TRIPLES)
                for entity in self.graph.objects(subject, relation)
            }
            self._pools[relation] = sorted(found.values(), key=lambda entity: self._lot("pool", relation, entity.key))
        return self._pools[relation]

    def _lot(self, *parts: str) -> str:
        """A place in an order that looks drawn but depends on seed and words alone."""
        return hashlib.sha256("/".join((str(self.tools.seed), *parts)).encode()).hexdigest()
