"""The counterfactual world of all cases, so that no two cases change one fact differently.

Step 3 of the paper's construction (section 3.2), for numbers. In group 1, two entities of a type exchange their
numbers; in group 2, a count changes to a close one. Each change is sampled once. All other facts are the same in every
case, so cases may depend on them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TypeVar
from zlib import crc32

from attrs import frozen

from ke_benchmarks.graph import LITERALS, KnowledgeGraph
from ke_core.plugin import Entity

T = TypeVar("T")
STEPS = (-2, -1, 1, 2)  # a close number


@frozen(kw_only=True)
class SwappedNumbers:
    """One numeric relation: the numbers, the pairs that exchange theirs (larger first), and the entities that keep
    theirs.
    """

    relation: str
    numbers: Mapping[str, float]
    pairs: tuple[tuple[str, str], ...]
    rest: tuple[str, ...]


@frozen(kw_only=True)
class ObjectCounts:
    """One relation with several objects per subject: the counts in the original and in the counterfactual world."""

    relation: str
    before: Mapping[str, int]
    after: Mapping[str, int]

    @property
    def altered(self) -> tuple[str, ...]:
        """The entities whose count changes."""
        return tuple(key for key in self.before if self.before[key] != self.after[key])


@frozen(kw_only=True)
class RecoeWorld:
    """All facts that can be used in questions, by relation."""

    swaps: tuple[SwappedNumbers, ...]
    counts: tuple[ObjectCounts, ...]


@frozen(kw_only=True)
class WorldSampler:
    """Samples a world from a graph, with ``size`` subjects for each relation."""

    graph: KnowledgeGraph
    relations: tuple[str, ...]
    share: float
    margin: float
    size: int
    seed: int

    def world(self) -> RecoeWorld:
        """Return the world of a graph and a seed."""
        graph, numeric, several = self.graph, [], []
        for name in self.relations:
            link = graph.links[name]
            if link.object == "number" and link.functional:
                numeric.append(name)
            elif link.object not in LITERALS and not link.functional:
                several.append(name)
        numbers = {name: self._numbers(name) for name in numeric}
        counts = {name: self._counts(name) for name in several}
        clear = self._unambiguous([*numbers.values(), *counts.values()])
        swaps = [
            self._swaps(name, {key: n for key, n in held.items() if key in clear}) for name, held in numbers.items()
        ]
        altered = [
            self._alter(name, {key: n for key, n in held.items() if key in clear}) for name, held in counts.items()
        ]
        return RecoeWorld(swaps=tuple(swaps), counts=tuple(altered))

    def _numbers(self, relation: str) -> dict[str, float]:
        found = {one.key: self.graph.number(one, relation) for one in self._subjects(relation)}
        return {key: value for key, value in found.items() if value is not None and value > 0}

    def _counts(self, relation: str) -> dict[str, int]:
        return {one.key: len(self.graph.objects(one, relation)) for one in self._subjects(relation)}

    def _subjects(self, relation: str) -> list[Entity]:
        """Return sampled subjects without holding all of them in memory, identical in every process."""

        def rank(one: Entity) -> tuple[int, str]:
            return crc32(f"{self.seed}/{relation}/{one.key}".encode()), one.key

        return sorted(nsmallest(self.size, self.graph.subjects(relation), key=rank), key=lambda one: one.key)

    def _unambiguous(self, pools: list[Iterable[str]]) -> frozenset[str]:
        """Return the entities with a unique label: records name entities by label only."""
        keys = {key for pool in pools for key in pool}
        labels = Counter(self.graph.entity(key).label.casefold() for key in keys)
        return frozenset(
            key
            for key in keys
            if labels[self.graph.entity(key).label.casefold()] == 1 and _plain(self.graph.entity(key).label)
        )

    def _swaps(self, relation: str, numbers: dict[str, float]) -> SwappedNumbers:
        pairs: list[tuple[str, str]] = []
        rest: list[str] = []
        kinds: dict[str, list[str]] = {}
        for key in numbers:
            kinds.setdefault(self.graph.kind(key), []).append(key)
        for kind, keys in sorted(kinds.items()):
            random.Random(f"{self.seed}/{relation}/{kind}").shuffle(keys)  # noqa: S311  a choice, not a secret
            cut = min(round(len(keys) * self.share), len(keys) - 1) if len(keys) > 2 else len(keys)
            made, left = self._pair(keys[:cut], numbers)
            pairs += made
            rest += [*left, *keys[cut:]]
        return SwappedNumbers(relation=relation, numbers=numbers, pairs=tuple(pairs), rest=tuple(rest))

    def _pair(self, keys: list[str], numbers: Mapping[str, float]) -> tuple[list[tuple[str, str]], list[str]]:
        """Pair each entity with the one whose number is nearest to its own among those that differ enough."""
        waiting, pairs, left = sorted(keys, key=lambda key: (-numbers[key], key)), list[tuple[str, str]](), list[str]()
        while waiting:
            first = waiting.pop(0)
            second = next((key for key in waiting if numbers[first] >= self.margin * numbers[key]), None)
            if second is None:
                left.append(first)
            else:
                waiting.remove(second)
                pairs.append((first, second))
        return pairs, left

    def _alter(self, relation: str, before: dict[str, int]) -> ObjectCounts:
        keys = list(before)
        draw = random.Random(f"{self.seed}/{relation}")  # noqa: S311  a choice, not a secret
        altered = set(draw.sample(keys, round(len(keys) * self.share)))
        after = {
            key: draw.choice([n + step for step in STEPS if n + step > 0]) if key in altered else n
            for key, n in before.items()
        }
        return ObjectCounts(relation=relation, before=before, after=after)


def interleaved(many: Sequence[Sequence[T]]) -> Iterator[T]:
    """Yield one member of each list in turn."""
    for at in range(max(map(len, many), default=0)):
        yield from (one[at] for one in many if at < len(one))


def _plain(label: str) -> bool:
    """Return whether a label can occur in a list and in a triple. "Saint Kitts and Nevis" looks like two members."""
    return not set(label) & set(",;()\n{}") and " and " not in label
