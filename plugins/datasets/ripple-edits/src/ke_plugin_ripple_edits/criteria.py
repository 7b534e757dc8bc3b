"""The tests of one edit by the six criteria (section 3.1; step 3 of section 4.1).

With S(x) the facts about x and T(x) the facts that name x, for the edit (e, r, o) -> (e, r, o*):

LG   the consequences of r by rules, and o* with the inverse of r           condition: the facts that were used
CI   for (o*, r', z) in S(o*): e, then r, then r' leads to z (not from o)   condition: (o*, r', z)
CII  for (z, r', e) in T(e): z, then r', then r leads to o*                 condition: (z, r', e)
SA   under every other name e' of e: (e', r, o*)                            condition: (e', r, o), the old object
PV   if r has several objects: the previous ones                            condition: the same
RS   every other fact about e of a relation that does not depend on r       condition: the same

The condition of SA differs from the published files, which require o* before the edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph, contains_name, literal
from ke_core.plugin import Entity
from ke_plugin_ripple_edits.rules import Rule, RuleQuery
from ke_plugin_ripple_edits.wording import FactWriter, asked
from ke_plugin_ripple_edits.world import Lookup, Place, PlannedEdit, RippleWorld, UniqueNames

OTHERS = 3
"""Maximum number of entities listed in "Besides ..."; tests with more are dropped."""
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@frozen(kw_only=True)
class BuiltTest:
    """A test in the published format, and the facts it depends on."""

    test: Mapping[str, Any]
    rests: frozenset[Place]


@frozen(kw_only=True)
class CriteriaBuilder:
    """Builds the tests of one edited world."""

    world: RippleWorld
    wording: FactWriter
    names: UniqueNames
    backwards: int

    @property
    def graph(self) -> KnowledgeGraph:
        """The facts before the edit."""
        return self.world.graph

    @property
    def plan(self) -> PlannedEdit:
        """The edit."""
        return self.world.plan

    def tests(self) -> dict[str, list[BuiltTest]]:
        """Return the tests by the keys of the published format."""
        return {
            "Logical_Generalization": list(self._unique(self.logical())),
            "Compositionality_I": list(self.forwards()),
            "Compositionality_II": list(self.back()),
            "Subject_Aliasing": list(self.aliases()),
            "Relation_Specificity": list(self.unrelated()),
            "Forgetfulness": list(self.preserved()),
        }

    # --- logical generalization --------------------------------------------------------------------------

    def logical(self) -> Iterator[BuiltTest]:
        """Return the consequences by the inverse and the rules."""
        inverse = self.world.inverse
        if inverse is not None and self._is_listed(inverse):
            found = self._derived(self.plan.new, inverse, (self.plan.subject,))
            if found is not None:
                yield self._made([found], ())
        for rule in self.world.rules.rules(self.plan.relation):
            made = self._by(rule)
            if made is not None:
                yield made

    def _is_listed(self, inverse: str) -> bool:
        """Return whether the graph lists the other subjects of the new object, which the question has to exclude."""
        new, relation = self.plan.new, self.plan.relation
        if literal(new.key) is not None:
            return False
        link = self.graph.links[inverse]
        return link.functional or bool(self.graph.objects(new, inverse)) or not self.graph.holders(relation, new)

    def _by(self, rule: Rule) -> BuiltTest | None:
        queries: list[dict[str, Any]] = []
        read: list[Lookup] = []
        for ask in rule.any:
            about, on_the_way = self.world.walk(ask.about)
            answers, looked_up = self._answers(ask)
            if ask.about == "subject" and not ask.says and not ask.count and self._held(ask, answers):
                continue
            for subject in about if answers else ():
                relation = self.world.rules.key(ask.ask)
                if ask.known and not (relation in self.graph.links and self.graph.objects(subject, relation)):
                    continue
                query = self._derived(subject, relation, answers)
                if query is not None:
                    queries.append(query)
                    read += [*on_the_way, *looked_up]
        conditions = self._conditions(read)
        untold = {row.place for row in read if self._stays(row)} - {place for _query, place in conditions}
        return self._made(queries, conditions) if queries and not untold else None

    def _answers(self, ask: RuleQuery) -> tuple[tuple[Entity, ...], list[Lookup]]:
        """Return the ends of the rule's walks. The edited entity itself is included only if a walk says so."""
        if ask.says:
            return (Entity(label=ask.says[0], aliases=ask.says[1:]),), []
        found: dict[Entity, None] = {}
        read: list[Lookup] = []
        for way in ask.answer:
            ends, looked_up = self.world.walk(way)
            read += looked_up
            if ask.count and "/" in way and not looked_up:
                return (), []  # no recorded fact does not mean that there is none
            found.update(dict.fromkeys(end for end in ends if way == "subject" or end != self.plan.subject))
        kept = tuple(entity for entity in found if self._is(entity, ask.where))
        if not ask.count:
            return kept, read
        number = str(len(kept))
        return (Entity(label=number, aliases=NUMBERS[len(kept) : len(kept) + 1], id=f"number:{number}"),), read

    def _held(self, ask: RuleQuery, answers: Sequence[Entity]) -> bool:
        """Return whether every right answer was right before the edit too: a model that ignores the edit would pass."""
        old = {entity for way in ask.answer if way != "subject" for entity in self.world.before(way)}
        return set(answers) <= old

    def _is(self, entity: Entity, where: Mapping[str, str]) -> bool:
        rows = ((self.world.objects(entity, self.world.rules.key(name)), label) for name, label in where.items())
        return all(any(label in found.names for found in objects[:1]) for objects, label in rows)

    def _derived(self, subject: Entity, relation: str, answers: Sequence[Entity]) -> dict[str, Any] | None:
        """Return a query for a derived fact. Other right answers are excluded by name."""
        prompt = self.wording.cloze(subject, relation)
        link = self.graph.links.get(relation)
        others = []
        if link is not None and not link.functional:
            others = [other for other in self.graph.objects(subject, relation) if other not in answers]
        if prompt is None or len(others) > OTHERS:
            return None
        prompt = self.wording.besides(prompt, others) if others else prompt
        return None if contains_name(prompt, answers) else asked(prompt, subject, relation, answers)

    def _unique(self, made: Iterator[BuiltTest]) -> Iterator[BuiltTest]:
        seen: set[str] = set()
        for one in made:
            prompts = "\n".join(query["prompt"] for query in one.test["test_queries"])
            if prompts not in seen:
                seen.add(prompts)
                yield one

    # --- compositionality --------------------------------------------------------------------------------

    def forwards(self) -> Iterator[BuiltTest]:
        """Yield tests of compositionality I."""
        plan = self.plan
        if not self._one_object():
            return
        for relation in self._relations_of(plan.new):
            found = self.graph.objects(plan.new, relation)
            touched = relation in self.world.rules.touched_object(plan.relation)
            held = any(set(found) & set(self.graph.objects(old, relation)) for old in plan.old)
            if touched or not found or held or plan.subject in found:
                continue
            prompt = self.wording.composed(plan.subject, plan.relation, relation)
            keys = [entity.key for entity in found]
            yield from self._composed(
                prompt,
                Lookup(subject=plan.new, relation=relation, objects=found),
                answers=found,
                query=(plan.subject, plan.relation, (plan.new,)),
                second_relation=relation,
                second_hop_target_ids=keys,
            )

    def back(self) -> Iterator[BuiltTest]:
        """Yield tests of compositionality II."""
        plan = self.plan
        if not self._one_object():
            return
        kind = self.graph.kind(plan.subject)
        for relation, link in self.graph.links.items():
            quiet = self.world.rules.words(relation).quiet or not link.functional  # "the neighbor of": ambiguous
            if link.object != kind or relation == self.world.inverse or quiet:
                continue
            holders = nsmallest(
                self.backwards,
                (z for z in self.graph.holders(relation, plan.subject) if self._leads_here(z, relation)),
                key=lambda z: (-self.graph.popularity(z), z.key),
            )
            for z in holders:
                yield from self._composed(
                    self.wording.composed(z, relation, plan.relation),
                    Lookup(subject=z, relation=relation, objects=(plan.subject,)),
                    answers=(plan.new,),
                    query=(z, relation, (plan.subject,)),
                    second_relation=plan.relation,
                    second_hop_target_ids=[plan.new.key],
                )

    def _leads_here(self, z: Entity, relation: str) -> bool:
        """Return whether the description fits only the edited entity, before and after the edit."""
        own = (z.key, relation) not in self.world.affected and z not in (self.plan.new, self.plan.subject)
        return own and self.names.clear(z) and self.graph.objects(z, relation) == (self.plan.subject,)

    def _one_object(self) -> bool:
        """Return whether two-hop tests are possible: the edited relation has one object, and it is an entity."""
        alone = self.plan.functional or not self.plan.old
        return alone and literal(self.plan.new.key) is None

    def _composed(
        self,
        prompt: str | None,
        rests_on: Lookup,
        *,
        answers: Sequence[Entity],
        query: tuple[Entity, str, tuple[Entity, ...]],
        **second: Any,
    ) -> Iterator[BuiltTest]:
        conditions = self._conditions([rests_on])
        if prompt is not None and conditions and not contains_name(prompt, answers):
            yield self._made([asked(prompt, *query, answers=answers, **second)], conditions)

    # --- unchanged facts, and other names --------------------------------------------------------------------

    def aliases(self) -> Iterator[BuiltTest]:
        """Yield tests of subject aliasing."""
        plan = self.plan
        for alias in dict.fromkeys(plan.subject.aliases):
            prompt = self.wording.renamed(plan.subject, alias, plan.relation) if alias.strip() else None
            if prompt is None or not self.names.own(alias, plan.subject) or alias == plan.subject.label:
                continue
            if not contains_name(prompt, (plan.new, *plan.old)):
                old = [asked(prompt, plan.subject, plan.relation, plan.old)] if plan.old else []
                yield self._made(
                    [asked(prompt, plan.subject, plan.relation, (plan.new,))], [(item, None) for item in old]
                )

    def preserved(self) -> Iterator[BuiltTest]:
        """Yield tests of preservation."""
        plan = self.plan
        prompt = self.wording.cloze(plan.subject, plan.relation)
        if plan.functional or not plan.old or prompt is None:
            return
        prompt = self.wording.besides(prompt, (plan.new,))
        if not contains_name(prompt, plan.old):
            query = asked(prompt, plan.subject, plan.relation, plan.old)
            yield self._made([query], [(query, None)])

    def unrelated(self) -> Iterator[BuiltTest]:
        """Yield tests of relation specificity."""
        plan = self.plan
        touched = self.world.rules.touched(plan.relation)
        for relation in self._relations_of(plan.subject):
            found = self.graph.objects(plan.subject, relation)
            if relation in touched or not found:
                continue
            conditions = self._conditions([Lookup(subject=plan.subject, relation=relation, objects=found)])
            yield from (self._made([query], [(query, place)]) for query, place in conditions)

    # --- common parts ----------------------------------------------------------------------------------------

    def _relations_of(self, entity: Entity) -> Iterator[str]:
        """Return the relations of the entity's type whose objects have a question."""
        kind = self.graph.kind(entity)
        for relation, link in self.graph.links.items():
            if link.subject == kind and link.object != "number" and not self.world.rules.words(relation).quiet:
                yield relation

    def _conditions(self, read: Sequence[Lookup]) -> list[tuple[dict[str, Any], Place | None]]:
        """Return the facts that the unedited model must recall: those that the edit does not change."""
        found: dict[Place, tuple[dict[str, Any], Place | None]] = {}
        for row in read:
            prompt = self.wording.cloze(row.subject, row.relation)
            if prompt is not None and self._stays(row) and not contains_name(prompt, row.objects):
                found[row.place] = asked(prompt, row.subject, row.relation, row.objects), row.place
        return list(found.values())

    def _stays(self, row: Lookup) -> bool:
        known = row.relation in self.graph.links
        return known and self.graph.objects(row.subject, row.relation) == row.objects

    def _made(
        self, queries: Sequence[dict[str, Any]], given: Sequence[tuple[dict[str, Any], Place | None]]
    ) -> BuiltTest:
        test = {
            "test_queries": list(queries),
            "test_condition": "OR",
            "condition_queries": [query for query, _place in given],
        }
        return BuiltTest(test=test, rests=frozenset(place for _query, place in given if place is not None))
