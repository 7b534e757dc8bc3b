"""The counterfactual world: the edited facts of the atlas and their new objects.

Every case is a path through this world with the edits on the path. So a (subject, relation) has one new object in
the whole dataset, no case depends on a fact that another case edits, and all cases can be edited at once
(``--batch all``). In contrast, the edits of MQuAKE-CF-3k, applied together, invalidate 998 of its 3,000 cases.

Inverse relations need care: after "The capital of France is Lima", is Lima still the capital of Peru? No case asks
this. For one half of the countries the dataset uses ``capital`` only, and new capitals come from that half. For the
other half it uses ``capital-of`` only, and new countries come from that half. So for an edit (s, r, o -> o*) no case
depends on the inverse of r for o or o*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from attrs import frozen

from ke_benchmarks import sort_key
from ke_benchmarks.graph import Graph, load_atlas

CAPITAL, CAPITAL_OF, COUNTRY, NEIGHBOUR = "capital", "capital-of", "country", "largest-neighbour"
CONTINENT, CURRENCY, LANGUAGE = "continent", "currency", "language"
RELATIONS = (CAPITAL, CAPITAL_OF, COUNTRY, NEIGHBOUR, CONTINENT, CURRENCY, LANGUAGE)
# Demonstrations use these countries and their cities, which occur in no case. The set is closed under
# ``largest-neighbour`` as far as the demonstrations use it.
HELD_OUT = frozenset(
    f"country:{code}"
    for code in "AU BZ CA DO EG ES FJ GT HT KE MX NO PT TH US UY".split()  # noqa: SIM905  as a table
)
# Fraction of the facts of a relation that are edited. Heads are edited often, so that chains change early.
SHARE = {CAPITAL: 0.4, CAPITAL_OF: 0.6, COUNTRY: 0.6, NEIGHBOUR: 0.4, CONTINENT: 0.4, CURRENCY: 0.4, LANGUAGE: 0.4}
KNOWN = 3  # minimum number of cities in the atlas: new objects come from countries that a small model may know
LONGEST = 16  # maximum characters of a new object's name: a short target is easier to edit into a small model


@frozen(kw_only=True)
class AtlasHop:
    """One step of a chain, with entities by id."""

    subject: str
    relation: str
    object: str

    @property
    def key(self) -> tuple[str, str]:
        """Subject and relation."""
        return self.subject, self.relation


@frozen(kw_only=True)
class AtlasWorld:
    """The atlas and its edits: (subject, relation) to the new object."""

    graph: Graph
    edits: Mapping[tuple[str, str], str]

    def walk(self, head: str, relations: tuple[str, ...], *, edited: bool) -> tuple[AtlasHop, ...] | None:
        """Return the chain from ``head`` in this world or in the real one.

        None if it is incomplete, has a cycle, or contains a held-out or unused fact.
        """
        hops: list[AtlasHop] = []
        seen = {head}
        for relation in relations:
            subject = hops[-1].object if hops else head
            found = self._object(subject, relation, edited=edited)
            if found is None or found in seen or not uses(self.graph, subject, relation) or held_out(found):
                return None
            seen.add(found)
            hops.append(AtlasHop(subject=subject, relation=relation, object=found))
        return tuple(hops)

    def _object(self, subject: str, relation: str, *, edited: bool) -> str | None:
        if edited and (subject, relation) in self.edits:
            return self.edits[subject, relation]
        found = self.graph.object(subject, relation)
        return found.key if found else None


@cache
def atlas_world() -> AtlasWorld:
    """Return the world of this dataset. It depends on the atlas only and uses no random numbers."""
    graph = load_atlas()
    edits: dict[tuple[str, str], str] = {}
    for relation in RELATIONS:
        subjects = [s.key for s in graph.subjects(relation) if uses(graph, s.key, relation)]
        subjects = [s for s in subjects if graph.object(s, relation)]
        chosen = sorted(subjects, key=lambda s: sort_key("edit", relation, s))[: round(SHARE[relation] * len(subjects))]
        pool = tuple(new_objects(graph, relation))
        edits |= {(subject, relation): _another(graph, subject, relation, pool) for subject in chosen}
    return AtlasWorld(graph=graph, edits=edits)


def uses(graph: Graph, subject: str, relation: str) -> bool:
    """Return whether the dataset uses this fact: not held out, and in the right half for ``capital`` and
    ``capital-of``.
    """
    if held_out(subject):
        return False
    if relation == CAPITAL:
        return _forwards(subject)
    if relation == CAPITAL_OF:
        country = graph.object(subject, CAPITAL_OF)
        return country is not None and not _forwards(country.key)
    return True


def held_out(entity: str) -> bool:
    """Return whether an entity is reserved for the demonstrations: one of their countries, or a city in one."""
    kind, _, key = entity.partition(":")
    return kind in ("country", "city") and f"country:{key.partition('/')[0]}" in HELD_OUT


def new_objects(graph: Graph, relation: str) -> Iterator[str]:
    """Return the possible new objects of a relation: its objects that are short, known, and in the right half."""
    known = (s.key for s in graph.subjects(relation) if _known(graph, s.key) and not held_out(s.key))
    objects = {found.key for subject in known if (found := graph.object(subject, relation))}
    for key in sorted(objects):
        node = graph.nodes[key]
        label = node.entity.label
        if held_out(key) or node.article or len(label) > LONGEST or (node.kind in ("city", "country") and " " in label):
            continue
        if relation == CAPITAL and not uses(graph, key.replace("city", "country").partition("/")[0], CAPITAL):
            continue
        if relation == CAPITAL_OF and _forwards(key):
            continue
        yield key


def _another(graph: Graph, subject: str, relation: str, pool: tuple[str, ...]) -> str:
    """Return the new object: different, not the subject, and for a neighbor not a real neighbor."""
    old = {o.key for o in graph.objects(subject, relation)}
    if relation == NEIGHBOUR:
        old |= {subject} | {o.key for o in graph.objects(subject, "neighbour")}
    return min((key for key in pool if key not in old), key=lambda key: sort_key("to", relation, subject, key))


def _known(graph: Graph, place: str) -> bool:
    """Return whether a country, or the country of a city, has several large cities."""
    code = place.partition(":")[2].partition("/")[0]
    return sum(key.startswith(f"city:{code}/") for key in graph.triples[COUNTRY]) >= KNOWN


def _forwards(country: str) -> bool:
    return int(sort_key("side", country)[:2], 16) % 2 == 0
