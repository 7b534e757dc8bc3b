"""One counterfactual world: which facts of the atlas are edited, and to what.

Every case is a walk through this one world, and its edits are those that lie on the walk. So a (subject, relation)
has one new object in the whole dataset, no case rests on a fact that another case edits, and all cases can be edited
at once (``--batch all``). The world of MQuAKE-CF-3k is not one: injected together, its edits break 998 of 3,000 cases.

Relations that say the same thing backwards need care: after "The capital of France is Lima", is Lima still the
capital of Peru? Here nobody asks. The countries are parted in two: of one half the dataset uses ``capital`` only, and
the new capitals are those of that half; of the other half ``capital-of`` only, and the new countries are of that half.
So for an edit (s, r, o -> o*) no case rests on what the inverse of r says of o or of o*.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache

from attrs import frozen

from ke_benchmarks.graph import Graph, load_atlas

CAPITAL, CAPITAL_OF, COUNTRY, NEIGHBOUR = "capital", "capital-of", "country", "largest-neighbour"
CONTINENT, CURRENCY, LANGUAGE = "continent", "currency", "language"
RELATIONS = (CAPITAL, CAPITAL_OF, COUNTRY, NEIGHBOUR, CONTINENT, CURRENCY, LANGUAGE)
# Demonstrations come from these countries and their cities, which no case touches. They are closed under
# ``largest-neighbour`` as far as the demonstrations use it.
HELD_OUT = frozenset(
    f"country:{code}"
    for code in "AU BZ CA DO EG ES FJ GT HT KE MX NO PT TH US UY".split()  # noqa: SIM905  as a table
)
# Share of the facts of a relation that are edited. Heads are edited often, so that chains turn early.
SHARE = {CAPITAL: 0.4, CAPITAL_OF: 0.6, COUNTRY: 0.6, NEIGHBOUR: 0.4, CONTINENT: 0.4, CURRENCY: 0.4, LANGUAGE: 0.4}
KNOWN = 3  # cities in the atlas: new objects come from countries that a small model may have heard of
LONGEST = 16  # characters of a new object's name: a short target is easier to write into a small model


@frozen(kw_only=True)
class AtlasHop:
    """One step of a chain; entities by id."""

    subject: str
    relation: str
    object: str

    @property
    def key(self) -> tuple[str, str]:
        """What can be asked of, or edited."""
        return self.subject, self.relation


@frozen(kw_only=True)
class AtlasWorld:
    """The atlas and its edits: (subject, relation) to the new object."""

    graph: Graph
    edits: Mapping[tuple[str, str], str]

    def walk(self, head: str, relations: tuple[str, ...], *, edited: bool) -> tuple[AtlasHop, ...] | None:
        """The chain from ``head`` in this world, or in the real one.

        None if it breaks off, comes back to where it was, or touches what is held out or not used.
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
def the_world() -> AtlasWorld:
    """The world of this dataset: a function of the atlas alone, without random numbers."""
    graph = load_atlas()
    edits: dict[tuple[str, str], str] = {}
    for relation in RELATIONS:
        subjects = [s.key for s in graph.subjects(relation) if uses(graph, s.key, relation)]
        subjects = [s for s in subjects if graph.object(s, relation)]
        chosen = sorted(subjects, key=lambda s: rank("edit", relation, s))[: round(SHARE[relation] * len(subjects))]
        pool = tuple(new_objects(graph, relation))
        edits |= {(subject, relation): _another(graph, subject, relation, pool) for subject in chosen}
    return AtlasWorld(graph=graph, edits=edits)


def uses(graph: Graph, subject: str, relation: str) -> bool:
    """Whether the dataset asks this at all: not held out, and on the right side of ``capital`` and ``capital-of``."""
    if held_out(subject):
        return False
    if relation == CAPITAL:
        return _forwards(subject)
    if relation == CAPITAL_OF:
        country = graph.object(subject, CAPITAL_OF)
        return country is not None and not _forwards(country.key)
    return True


def held_out(entity: str) -> bool:
    """Whether an entity is kept for the demonstrations: one of their countries, or a city in one."""
    kind, _, key = entity.partition(":")
    return kind in ("country", "city") and f"country:{key.partition('/')[0]}" in HELD_OUT


def new_objects(graph: Graph, relation: str) -> Iterator[str]:
    """What an edit of that relation may say instead: objects that occur with it, short, known, on the right side."""
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


def rank(*parts: str) -> str:
    """A place in an order that looks drawn by lot but depends on nothing but the words (M3)."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()


def _another(graph: Graph, subject: str, relation: str, pool: tuple[str, ...]) -> str:
    """The new object: another one, that is not the subject nor, for a neighbour, one of the real ones."""
    old = {o.key for o in graph.objects(subject, relation)}
    if relation == NEIGHBOUR:
        old |= {subject} | {o.key for o in graph.objects(subject, "neighbour")}
    return min((key for key in pool if key not in old), key=lambda key: rank("to", relation, subject, key))


def _known(graph: Graph, place: str) -> bool:
    """Whether a country, or the one that a city lies in, has several large cities."""
    code = place.partition(":")[2].partition("/")[0]
    return sum(key.startswith(f"city:{code}/") for key in graph.triples[COUNTRY]) >= KNOWN


def _forwards(country: str) -> bool:
    return int(rank("side", country)[:2], 16) % 2 == 0
