"""Types of the subjects and objects of relations, and whether a subject has one object only.

Types come, in this order, from the table of relations, from the data (``rdf:type``, P31, a column), or from the facts:
two positions of relations (the objects of ``headquarters``, the subjects of ``mayor``) have one type if half of the
entities in the smaller one also occur in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field, frozen

from ke_benchmarks.graph.base import literal
from ke_benchmarks.graph.relations import RelationDescription
from ke_benchmarks.graph.rows import KIND, GraphRow
from ke_benchmarks.graph.store import TripleStore

MOSTLY = 0.9  # functional: nine of ten subjects have one object
SHARED = 0.5
SAMPLE = 500
Place = tuple[str, str]  # relation, "subject" or "object"


@define
class Survey:
    """One pass over the facts of some relations."""

    mentions: Counter[str] = field(factory=Counter)
    members: dict[Place, set[str]] = field(factory=dict)
    functional: dict[str, bool] = field(factory=dict)
    literals: dict[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Kinds:
    """The type of every position, and the rows that assign types to entities."""

    places: Mapping[Place, str]
    rows: Sequence[GraphRow]


def survey(store: TripleStore, relations: Sequence[str]) -> Survey:
    """Count the entities of the relations. Keys are stored once, regardless of their number of facts."""
    found, same = Survey(), dict[str, str]()
    for relation in relations:
        objects_of: Counter[str] = Counter()
        values: set[str] = set()
        kinds: Counter[str] = Counter()
        for subject, object_ in store.pairs(relation):
            subject = same.setdefault(subject, subject)  # noqa: PLW2901  one string for one key
            objects_of[subject] += 1
            value = literal(object_)
            if value:
                kinds[value.kind] += 1
                continue
            object_ = same.setdefault(object_, object_)  # noqa: PLW2901  as above
            found.mentions[object_] += 1
            values.add(object_)
        found.mentions.update(objects_of)
        found.members[relation, "subject"] = set(objects_of)
        found.members[relation, "object"] = values
        single = sum(count == 1 for count in objects_of.values())
        found.functional[relation] = single >= MOSTLY * len(objects_of)
        if kinds.total() > len(values):
            found.literals[relation] = min(kinds, key=lambda kind: (-kinds[kind], kind))
    return found


def kinds_of(store: TripleStore, found: Survey, told: Mapping[str, RelationDescription]) -> Kinds:
    """Return the types of positions and entities."""
    typed = {subject for subject, _kind in store.pairs(KIND)}
    declared = any(one.subject or one.object for one in told.values())
    return _typed(store, found) if typed and not declared else _inferred(found, told)


def _typed(store: TripleStore, found: Survey) -> Kinds:
    """Return the most common of an entity's types, by label."""
    every: dict[str, list[str]] = {}
    for subject, kind in store.pairs(KIND):
        every.setdefault(subject, []).append(kind)
    common = Counter(kind for kinds in every.values() for kind in kinds)
    called = {kind: (store.names(kind)[0] or kind.rpartition("/")[2].rpartition("#")[2]) for kind in common}
    own = {key: called[min(kinds, key=lambda kind: (-common[kind], kind))] for key, kinds in every.items()}
    places = {}
    for place, members in found.members.items():
        votes = Counter(own.get(key, "thing") for key in members)
        places[place] = min(votes, key=lambda kind: (-votes[kind], kind)) if votes else "thing"
    rows = [GraphRow(key, KIND, f"text:{own.get(key, 'thing')}") for key in found.mentions]
    return Kinds(places=places, rows=rows)


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
    rows = [
        GraphRow(key, KIND, f"text:{min(counts, key=lambda kind: (-counts[kind], kind))}")
        for key, counts in votes.items()
    ]
    return Kinds(places=places, rows=rows)


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
