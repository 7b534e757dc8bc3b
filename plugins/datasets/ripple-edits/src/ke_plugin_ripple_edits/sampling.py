"""Sample the edited facts and their new objects (section 4.1, steps 1 and 2).

All edits share one counterfactual world: no two change the same facts, so none of them undoes the consequences of
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise, zip_longest

from attrs import define, field

from ke_benchmarks import sort_key
from ke_benchmarks.graph import BuildTools, KnowledgeGraph
from ke_core.plugin import Entity
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.rules import Rules
from ke_plugin_ripple_edits.world import Place, PlannedEdit, RippleWorld, UniqueNames

BUCKETS = 10
TRIPLES = 100_000
"""Facts of a relation that are read for candidate objects (the paper's N_cand)."""
TRIED = 50
"""Candidates that are tried for one edit."""


@define(kw_only=True)
class EditSampler:
    """Samples edits as they are requested."""

    graph: KnowledgeGraph
    rules: Rules
    config: RippleBuildConfig
    tools: BuildTools
    names: UniqueNames
    _pools: dict[str, Sequence[Entity]] = field(factory=dict)
    _taken: set[Place] = field(factory=set)

    def worlds(self) -> Iterator[RippleWorld]:
        """Yield one edit per subject, each with the edited graph."""
        for key in self._subjects():
            world = self._of(self.graph.entity(key))
            if world is not None:
                self._taken |= world.affected
                yield world

    @property
    def editable(self) -> tuple[str, ...]:
        """Return the relations between entities, and those whose objects are dates or texts."""
        return tuple(
            key
            for key, link in self.graph.links.items()
            if link.relation.cloze and link.object != "number" and not self.rules.words(key).quiet
        )

    def _subjects(self) -> Iterator[str]:
        """Yield keys of subjects: in turn from ten equal buckets by number of facts, or from the last one only."""
        popular: dict[str, int] = {}
        for relation in self.editable:
            for subject in self.graph.subjects(relation):
                if subject.key not in popular:
                    popular[subject.key] = self.graph.popularity(subject)
        ordered = sorted(popular, key=lambda key: (popular[key], key))
        ends = [round(len(ordered) * at / BUCKETS) for at in range(BUCKETS + 1)]
        buckets = [ordered[low:high] for low, high in pairwise(ends)]
        wanted = buckets[-1:] if self.config.subset == "popular" else buckets
        drawn = [sorted(bucket, key=lambda key: self._sort_key("subject", key)) for bucket in wanted]
        return (key for key in chain.from_iterable(zip_longest(*drawn)) if key is not None)

    def _of(self, subject: Entity) -> RippleWorld | None:
        if not self.names.clear(subject):
            self.tools.dropped("the subject has no label, or shares it with another entity")
            return None
        own = [relation for relation in self.editable if self.graph.objects(subject, relation)]
        for relation in sorted(own, key=lambda relation: self._sort_key("relation", subject.key, relation)):
            plan = self._plan(subject, relation)
            if plan is None:
                continue
            world = RippleWorld(graph=self.graph, rules=self.rules, plan=plan)
            if not world.affected & self._taken:
                return world
        self.tools.dropped("every edit of the subject conflicts with another edit")
        return None

    def _plan(self, subject: Entity, relation: str) -> PlannedEdit | None:
        objects = self.graph.objects(subject, relation)
        functional = self.graph.links[relation].functional
        if functional and len(objects) > 1:
            return None  # ambiguous which object the edit replaces
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
        """Return another object of the same relation, and therefore of the same type (step 2)."""
        pool = self._pool(relation)
        taken = {name.casefold() for entity in (subject, *objects) for name in entity.names}
        inverse = self.rules.inverse(relation)
        start = int(self._sort_key("object", subject.key, relation)[:12], 16)
        for at in range(min(TRIED, len(pool))):
            new = pool[(start + at) % len(pool)]
            if taken & {name.casefold() for name in new.names} or not self.names.clear(new):
                continue
            if not self._taken & {(new.key, relation), (new.key, inverse or relation)}:
                return new
        return None

    def _pool(self, relation: str) -> Sequence[Entity]:
        """Return the distinct objects of the relation, in pseudo-random order."""
        if relation not in self._pools:
            found: Mapping[str, Entity] = {
                entity.key: entity
                for subject in islice(self.graph.subjects(relation), TRIPLES)
                for entity in self.graph.objects(subject, relation)
            }
            self._pools[relation] = sorted(
                found.values(), key=lambda entity: self._sort_key("pool", relation, entity.key)
            )
        return self._pools[relation]

    def _sort_key(self, *parts: str) -> str:
        return sort_key(str(self.tools.seed), *parts)
