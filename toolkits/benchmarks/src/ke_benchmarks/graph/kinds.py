"""Types of the subjects and objects of relations, and whether a subject has one object only.

Types come, in this order, from the table of relations, from the data (``rdf:type``, P31, a column), or from the facts:
two positions of relations (the objects of ``headquarters``, the subjects of ``mayor``) have one type if half of the
entities in the smaller one also occur in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from ke_benchmarks.graph.base import literal
from ke_benchmarks.graph.relations import RelationDescription
from ke_benchmarks.graph.store import FactStore

MOSTLY = 0.9  # functional: nine of ten subjects have one object
SHARED = 0.5
SAMPLE = 500
Place = tuple[str, str]  # relation, "subject" or "object"


@frozen(kw_only=True)
class Survey:
    """Counts of the entities and literals of a store."""

    mentions: Counter[str] = field(factory=Counter)
    members: dict[Place, set[str]] = field(factory=dict)
    functional: dict[str, bool] = field(factory=dict)
    literals: dict[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Kinds:
    """The type of every position and of every entity."""

    places: Mapping[Place, str]
    entities: Mapping[str, str]


def survey(store: FactStore) -> Survey:
    """Count the entities of each relation."""
    found = Survey()
    for relation, by_subject in store.facts.items():
        values: set[str] = set()
        kinds: Counter[str] = Counter()
        for subject, objects in by_subject.items():
            found.mentions[subject] += len(objects)
            for object_ in objects:
                value = literal(object_)
                if value:
                    kinds[value.kind] += 1
                else:
                    found.mentions[object_] += 1
                    values.add(object_)
        found.members[relation, "subject"] = set(by_subject)
        found.members[relation, "object"] = values
        single = sum(len(objects) == 1 for objects in by_subject.values())
        found.functional[relation] = single >= MOSTLY * len(by_subject)
        if kinds.total() > len(values):
            found.literals[relation] = _most_common(kinds)
    return found


def kinds_of(store: FactStore, found: Survey, told: Mapping[str, RelationDescription]) -> Kinds:
    """Return the types of positions and entities."""
    declared = any(one.subject or one.object for one in told.values())
    return _typed(store, found) if store.kinds and not declared else _inferred(found, told)


def _typed(store: FactStore, found: Survey) -> Kinds:
    """Return the most common of an entity's types, by label."""
    common = Counter(kind for kinds in store.kinds.values() for kind in kinds)
    called = {kind: (store.names(kind)[0] or kind.rpartition("/")[2].rpartition("#")[2]) for kind in common}
    own = {key: called[min(kinds, key=lambda kind: (-common[kind], kind))] for key, kinds in store.kinds.items()}
    places = {
        place: _most_common(Counter(own.get(key, "thing") for key in members)) if members else "thing"
        for place, members in found.members.items()
    }
    return Kinds(places=places, entities={key: own.get(key, "thing") for key in found.mentions})


def _most_common(votes: Mapping[str, int]) -> str:
    """Return the most common type; of equally common ones the first in alphabetical order."""
    return min(votes, key=lambda kind: (-votes[kind], kind))


def _inferred(found: Survey, told: Mapping[str, RelationDescription]) -> Kinds:
    names = {
        place: name
        for place in found.members
        if (name := getattr(told.get(place[0], RelationDescription()), place[1])) is not None
    }
    groups = _groups(found.members, names)
    called = {id(group): _type_name(group, found, names, told) for group in groups}
    places = {place: called[id(group)] for group in groups for place in group}
    votes: dict[str, Counter[str]] = {}
    for place, members in found.members.items():
        for key in members:
            votes.setdefault(key, Counter())[places[place]] += 1
    return Kinds(places=places, entities={key: _most_common(counts) for key, counts in votes.items()})


def _groups(members: Mapping[Place, set[str]], names: Mapping[Place, str]) -> list[list[Place]]:
    """Group positions with the same entities. Positions with different types in the table are never grouped."""
    groups: list[list[Place]] = []
    for place in sorted((p for p in members if members[p]), key=lambda p: (-len(members[p]), p)):
        fits = [group for group in groups if _one_kind(place, group, members, names)]
        for group in fits[1:]:
            if len({names[p] for p in (*fits[0], *group) if p in names}) < 2:
                fits[0].extend(group)
                groups.remove(group)
        if fits:
            fits[0].append(place)
        else:
            groups.append([place])
    return groups


def _one_kind(
    place: Place, group: Sequence[Place], members: Mapping[Place, set[str]], names: Mapping[Place, str]
) -> bool:
    given = {names[p] for p in group if p in names}
    if place in names and given:
        return names[place] in given
    return any(_overlap(members[place], members[other]) >= SHARED for other in group)


def _overlap(one: set[str], other: set[str]) -> float:
    small, large = sorted((one, other), key=len)
    some = sorted(small)[:: max(1, len(small) // SAMPLE)]
    return sum(key in large for key in some) / len(some)


def _type_name(
    group: Sequence[Place], found: Survey, names: Mapping[Place, str], told: Mapping[str, RelationDescription]
) -> str:
    """Return the table's name of the type, otherwise of the largest position: "employer", "subject of employer"."""
    for place in group:
        if place in names:
            return names[place]
    objects = [place for place in group if place[1] == "object"]
    relation, side = max(objects or group, key=lambda place: (len(found.members[place]), place))
    label = told.get(relation, RelationDescription()).label or relation
    return label if side == "object" else f"subject of {label}"


def link_kinds(relation: str, told: RelationDescription, found: Survey, kinds: Kinds) -> Iterator[str]:
    """Return the types of a relation's subjects, then of its objects, which may be literals."""
    yield told.subject or kinds.places.get((relation, "subject"), "thing")
    yield found.literals.get(relation) or told.object or kinds.places.get((relation, "object"), "thing")
