"""Select and order the paths through the counterfactual world that become cases, by MQuAKE's rules (section 3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from attrs import frozen

from ke_benchmarks import sort_key
from ke_benchmarks.graph import contains_name
from ke_core.plugin import Entity
from ke_plugin_atlas.wording import wordings
from ke_plugin_atlas.world import (
    CAPITAL,
    CAPITAL_OF,
    CONTINENT,
    COUNTRY,
    CURRENCY,
    LANGUAGE,
    NEIGHBOUR,
    AtlasHop,
    AtlasWorld,
    atlas_world,
)

ENDS = (CONTINENT, CURRENCY, LANGUAGE)
# No relation occurs twice, or together with its inverse, in one chain.
SEQUENCES: tuple[tuple[str, ...], ...] = (
    *((start, end) for start in (COUNTRY, NEIGHBOUR) for end in (*ENDS, CAPITAL)),
    *((CAPITAL_OF, end) for end in ENDS),
    *((COUNTRY, NEIGHBOUR, end) for end in (*ENDS, CAPITAL)),
    *((CAPITAL_OF, NEIGHBOUR, end) for end in ENDS),
)
CASES = {2: 200, 3: 200}  # by hops
PER_HEAD = 3  # maximum number of cases that start at one entity
PER_END = 8  # maximum number of cases that end with one fact (some countries have many small neighbors)


@frozen(kw_only=True)
class AtlasChain:
    """The path from a question to its answer before and after the edits. ``edited``: the hops of the new path that are
    edits.
    """

    questions: tuple[str, ...]
    before: tuple[AtlasHop, ...]
    after: tuple[AtlasHop, ...]
    edited: tuple[AtlasHop, ...]

    @property
    def stratum(self) -> tuple[int, int, tuple[str, ...]]:
        """Hops, edits, relations."""
        return len(self.after), len(self.edited), tuple(hop.relation for hop in self.after)


@cache
def chains() -> tuple[AtlasChain, ...]:
    """Return the chains of all cases, sampled in turn from every stratum: the first cases are representative."""
    strata: dict[tuple[int, int, tuple[str, ...]], list[AtlasChain]] = defaultdict(list)
    for chain in candidates(atlas_world()):
        strata[chain.stratum].append(chain)
    turns = [
        (number, sort_key("turn", str(number), str(stratum)), chain)
        for stratum, found in strata.items()
        for number, chain in enumerate(sorted(found, key=lambda chain: sort_key("case", chain.questions[0])))
    ]
    chosen: list[AtlasChain] = []
    used: Counter[str] = Counter()
    left = Counter(CASES)
    for _number, _place, chain in sorted(turns, key=lambda turn: turn[:2]):
        head, end, hops = chain.after[0].subject, str(chain.after[-1].key), len(chain.after)
        if left[hops] and used[head] < PER_HEAD and used[end] < PER_END:
            chosen.append(chain)
            used.update((head, end))
            left[hops] -= 1
    return _mixed(chosen)


def candidates(world: AtlasWorld) -> Iterator[AtlasChain]:
    """Yield every path that can be a case."""
    for relations in SEQUENCES:
        for subject in world.graph.subjects(relations[0]):
            before = world.walk(subject.key, relations, edited=False)
            after = world.walk(subject.key, relations, edited=True)
            if before is None or after is None or before[-1].object == after[-1].object:
                continue
            edited = tuple(hop for hop in after if hop.key in world.edits)
            if edited and not _reveals_answer(world, subject, (*before, *after)):
                questions = wordings(world.graph, subject.key, relations)
                yield AtlasChain(questions=questions, before=before, after=after, edited=edited)


def _mixed(chosen: Sequence[AtlasChain]) -> tuple[AtlasChain, ...]:
    """Interleave the chains so that every section has the same proportions of hops and edits as the whole."""
    groups: dict[tuple[int, int], list[AtlasChain]] = defaultdict(list)
    for chain in chosen:
        groups[chain.stratum[:2]].append(chain)
    places = [((at + 0.5) / len(group), key, chain) for key, group in groups.items() for at, chain in enumerate(group)]
    return tuple(chain for *_place, chain in sorted(places, key=lambda place: place[:2]))


def _reveals_answer(world: AtlasWorld, head: Entity, hops: Sequence[AtlasHop]) -> bool:
    """Return whether the name of the head contains the name of a later entity: "the country whose capital is Kuwait
    City".
    """
    return contains_name(head.label, (world.graph.entity(hop.object) for hop in hops))
