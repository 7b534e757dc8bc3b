"""Compute the chain of a case again after one of its edits got another object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ke_benchmarks.audit.bank import by_id, by_question, objects_of
from ke_core.plugin import EFFICACY, Case, Edit, Fact, Place, Probe, Query


class CannotRebuild(Exception):
    """The reason why the chain cannot be computed, as the end of a sentence."""


@frozen(kw_only=True)
class RebuiltHop:
    """A hop of a chain: its fact, its question, and the edit that makes it true, if any."""

    fact: Fact
    query: Query
    edit: Edit | None = None


@frozen(kw_only=True)
class FactIndex:
    """Facts of the edited world and of the original one in all cases of a dataset, by subject and relation."""

    edited: Mapping[Place, RebuiltHop]
    real: Mapping[Place, RebuiltHop]

    @classmethod
    def of(cls, cases: Iterable[Case]) -> FactIndex:
        """Collect facts from every chain whose hops have questions. The first case with a fact wins."""
        edited: dict[Place, RebuiltHop] = {}
        real: dict[Place, RebuiltHop] = {}
        for case in cases:
            for hop in hops_of(case):
                (real if hop.edit is None else edited).setdefault(by_id(hop.fact), hop)
            for hop in _aligned(case.facts_before, _behind(case, after=False), ()):
                real.setdefault(by_id(hop.fact), hop)
        return cls(edited=edited, real=real)

    def about(self, place: Place) -> RebuiltHop | None:
        """Return the fact after all edits."""
        return self.edited.get(place) or self.real.get(place)


def hops_of(case: Case) -> tuple[RebuiltHop, ...]:
    """Return the hops of the chain after the edits; empty if it has no questions."""
    return tuple(_aligned(case.facts_after, _behind(case, after=True), case.edits))


def rebuilt(case: Case, winners: Mapping[Place, Edit], known: FactIndex) -> Case:
    """Return ``case`` with the edits ``winners`` (by question) instead of its own, and the chain that follows from
    them.

    Edits that are no longer on the chain are removed, and edits of other cases that are now on it are added. Raises
    CannotRebuild.
    """
    hops = _chain(case, winners, known)
    edits = tuple(hop.edit for hop in hops if hop.edit is not None)
    last = hops[-1].query.gold
    ids = tuple(edit.id for edit in edits)
    queries = tuple(hop.query for hop in hops)
    probes = [
        Probe(id=f"{EFFICACY}-{at}", aspect=EFFICACY, queries=(query,), edits=(name,))
        for at, (query, name) in enumerate(((one, one.edit) for one in queries if one.edit is not None), start=1)
    ]
    old = tuple(hop.query for hop in hops_of(case))
    for probe in case.probes:
        if probe.aspect == EFFICACY:
            continue
        if probe.phase == "before":
            made = probe.queries
        elif probe.queries == old:
            made = queries
        elif all(query.hops == old for query in probe.queries):
            made = tuple(evolve(query, gold=last, hops=queries) for query in probe.queries)
        else:
            raise CannotRebuild(f"its probe {probe.id} contains questions outside of its chain")
        if any(query.pre_edit is not None and query.pre_edit.entities == last.entities for query in made if query.hops):
            raise CannotRebuild("its answer would not change")
        probes.append(evolve(probe, queries=made, edits=ids))
    return evolve(
        case,
        edits=edits,
        probes=tuple(probes),
        facts_after=tuple(hop.fact for hop in hops),
        tags={**case.tags, "edits": str(len(edits))} if "edits" in case.tags else case.tags,
    )


def _chain(case: Case, winners: Mapping[Place, Edit], known: FactIndex) -> tuple[RebuiltHop, ...]:
    """Return the hops up to the first changed one, that one, and its consequences."""
    hops = hops_of(case)
    if not hops or any(len(hop.fact.objects) != 1 for hop in hops):
        raise CannotRebuild("its questions do not belong to a chain of single objects")
    turned = [hop.edit is not None and by_question(hop.fact) in winners for hop in hops]
    if not any(turned):
        raise CannotRebuild("the edit is not a hop of its chain")
    at = turned.index(True)
    made = [*hops[:at], _with_new_object(hops[at], winners[by_question(hops[at].fact)], known)]
    seen = {hop.fact.subject.key for hop in made}
    for old in hops[at + 1 :]:
        subject, relation = made[-1].fact.objects[0], old.fact.relation
        if subject.key in seen:
            raise CannotRebuild(f"its chain would return to {subject.label}")
        seen.add(subject.key)
        found = known.about((subject.key, relation.key))
        if found is None:
            raise CannotRebuild(f"no other case contains the {relation.label} of {subject.label}")
        made.append(found)
    ids = {query.texts[0]: query.id for query in _behind(case, after=False)}
    return tuple(
        evolve(new, query=evolve(new.query, id=_id(new.query, old.query, ids)))
        for new, old in zip(made, hops, strict=True)
    )


def _with_new_object(hop: RebuiltHop, winner: Edit, known: FactIndex) -> RebuiltHop:
    """Return the hop with the new object. It keeps its own subject, so that it still follows the previous hop."""
    assert hop.edit is not None
    assert winner.after is not None
    if hop.edit.before is not None and objects_of(hop.edit.before) == objects_of(winner.after):
        raise CannotRebuild("the majority's object is the one that its edit replaced")
    donor = known.about(by_id(winner.after))
    if donor is None:
        raise CannotRebuild("the majority's edit has no question")
    fact = evolve(hop.fact, objects=winner.after.objects, text=winner.after.text)
    edit = evolve(hop.edit, id=winner.id, statement=winner.statement, after=fact)
    return RebuiltHop(fact=fact, query=evolve(hop.query, gold=donor.query.gold, edit=winner.id), edit=edit)


def _id(new: Query, old: Query, before: Mapping[str, str]) -> str:
    """Return the id of a question: its id in the old chain, otherwise the id of its hop or a new one."""
    if new.texts[0] in before:
        return before[new.texts[0]]
    return old.id if new.texts[0] == old.texts[0] else f"{old.id}-again"


def _behind(case: Case, *, after: bool) -> tuple[Query, ...]:
    for probe in case.probes:
        for query in probe.queries:
            if query.hops:
                return query.hops if after else query.hops_before
    return ()


def _aligned(facts: Sequence[Fact], queries: Sequence[Query], edits: Sequence[Edit]) -> Iterator[RebuiltHop]:
    if len(facts) != len(queries):
        return
    own = {edit.id: edit for edit in edits}
    for fact, query in zip(facts, queries, strict=True):
        yield RebuiltHop(fact=fact, query=query, edit=own.get(query.edit or ""))
