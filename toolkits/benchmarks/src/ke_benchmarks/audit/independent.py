"""A large independent set of a graph, and an upper bound for any independent set.

First solve the linear relaxation (x_u + x_v <= 1 on every edge, maximize the sum). Its vertices with x = 1 are in some
largest set and those with x = 0 are not, so only the vertices with x = 1/2 are searched (Nemhauser and Trotter, "Vertex
packings: structural properties and algorithms", 1975). The set is filled by least degree, then improved by swaps of one
vertex for two, from solutions perturbed by forcing a vertex in (Andrade, Resende and Werneck, "Fast local search for
the maximum independent set problem", 2012), in a fixed instead of a random order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from attrs import frozen

Graph = tuple[set[int], ...]
"""The neighbors of each vertex. A vertex that is its own neighbor is in no independent set."""

Adjacent = Mapping[int, frozenset[int]]
SHAKES = 1000
"""Vertices forced into the solution before the search ends: seconds for thousands of vertices."""


@frozen(kw_only=True)
class IndependentSet:
    """A maximal independent set, and an upper bound of every independent set's size."""

    chosen: frozenset[int]
    bound: int


def largest(graph: Graph) -> IndependentSet:
    """Search for a largest independent set. Deterministic."""
    loops = {vertex for vertex, others in enumerate(graph) if vertex in others}
    whole = _within(graph, set(range(len(graph))) - loops)
    kept, open_ = relaxed(whole)
    kernel = _within(graph, open_)
    chosen = improve(kernel, by_degree(kernel))
    bound = len(kept) + min(len(open_) // 2, clique_cover(kernel))
    return IndependentSet(chosen=kept | chosen, bound=bound)


def relaxed(graph: Adjacent) -> tuple[frozenset[int], frozenset[int]]:
    """Return the vertices with x = 1, and those with x = 1/2, in an optimum of the linear relaxation.

    The optimum is half a largest independent set of the bipartite double (each vertex on both sides, each edge twice):
    by Koenig's theorem, the complement of the minimum vertex cover of a maximum matching.
    """
    mate, back = _matching(graph)
    left = {vertex for vertex in graph if vertex not in mate}  # reached by alternating paths from unmatched ones
    right: set[int] = set()
    queue = deque(sorted(left))
    while queue:
        for other in graph[queue.popleft()]:
            if other not in right:
                right.add(other)
                if other in back and back[other] not in left:
                    left.add(back[other])
                    queue.append(back[other])
    ones = frozenset(vertex for vertex in graph if vertex in left and vertex not in right)
    zeros = frozenset(vertex for vertex in graph if vertex not in left and vertex in right)
    return ones, frozenset(graph) - ones - zeros


def by_degree(graph: Adjacent) -> frozenset[int]:
    """Return a maximal independent set, always adding the first vertex with the fewest remaining neighbors."""
    degree = {vertex: len(others) for vertex, others in graph.items()}
    heap = [(n, vertex) for vertex, n in degree.items()]
    heapq.heapify(heap)
    chosen, gone = set(), set[int]()
    while heap:
        n, vertex = heapq.heappop(heap)
        if vertex in gone or n != degree[vertex]:
            continue
        chosen.add(vertex)
        gone.add(vertex)
        lost = [other for other in sorted(graph[vertex]) if other not in gone]
        gone.update(lost)
        for other in (third for one in lost for third in graph[one] if third not in gone):
            degree[other] -= 1
            heapq.heappush(heap, (degree[other], other))
    return frozenset(chosen)


def clique_cover(graph: Adjacent) -> int:
    """Return the size of a greedy clique cover: each clique contains at most one vertex of an independent set."""
    cliques: list[set[int]] = []
    holding: dict[int, list[int]] = {vertex: [] for vertex in graph}  # cliques with a neighbor in them, repeated
    for vertex in sorted(graph, key=lambda one: (len(graph[one]), one)):
        touched: dict[int, int] = {}
        for at in holding[vertex]:
            touched[at] = touched.get(at, 0) + 1
        whole = [at for at, n in touched.items() if n == len(cliques[at])]
        home = max(whole, key=lambda at: (len(cliques[at]), -at), default=len(cliques))
        if home == len(cliques):
            cliques.append(set())
        cliques[home].add(vertex)
        for other in graph[vertex]:
            holding[other].append(home)
    return len(cliques)


def improve(graph: Adjacent, start: Collection[int]) -> frozenset[int]:
    """Return the best set found by local search from ``start``."""
    search = IndependentSetSearch(graph, start)
    search.climb(sorted(start))
    best = frozenset(search.chosen)
    outside_since = dict.fromkeys(sorted(graph), 0)
    for shake in range(1, SHAKES + 1 if graph else 0):
        candidates = [vertex for vertex in outside_since if vertex not in search.chosen]
        if not candidates:
            break
        forced = min(candidates, key=lambda one: (search.tight[one] > 2, outside_since[one], search.tight[one], one))
        before = set(search.chosen)
        touched = search.force(forced)
        outside_since[forced] = shake
        search.climb(touched)
        for vertex in before - search.chosen:
            outside_since[vertex] = shake
        if len(search.chosen) > len(best):
            best = frozenset(search.chosen)
        elif len(search.chosen) < len(best) - 2:  # much worse than the best: return to it
            search = IndependentSetSearch(graph, best)
    return best


class IndependentSetSearch:
    """A maximal independent set that is modified. ``tight``: how many chosen neighbors a vertex has."""

    def __init__(self, graph: Adjacent, chosen: Iterable[int]) -> None:
        self.graph = graph
        self.chosen: set[int] = set()
        self.tight = dict.fromkeys(graph, 0)
        for vertex in chosen:
            self._add(vertex)

    def force(self, vertex: int) -> list[int]:
        """Add ``vertex``, remove its chosen neighbors, and fill free vertices. Return where to look for swaps."""
        out = sorted(self.graph[vertex] & self.chosen)
        for other in out:
            self._remove(other)
        self._add(vertex)
        filled = self._fill(third for one in out for third in sorted(self.graph[one]))
        near = {third for one in out for other in self.graph[one] for third in self.graph[other] & self.chosen}
        return [vertex, *filled, *sorted(near - {vertex, *filled})]

    def climb(self, where: Iterable[int]) -> None:
        """Swap one chosen vertex for two that only it excludes, until there is no such swap."""
        queue = deque(where)
        while queue:
            vertex = queue.popleft()
            if vertex not in self.chosen:
                continue
            loose = [other for other in sorted(self.graph[vertex]) if self.tight[other] == 1]
            pair = next(
                (
                    (one, other)
                    for at, one in enumerate(loose)
                    for other in loose[at + 1 :]
                    if other not in self.graph[one]
                ),
                None,
            )
            if pair is None:
                continue
            self._remove(vertex)
            for one in pair:
                self._add(one)
            filled = self._fill(loose)
            near = {third for other in self.graph[vertex] for third in self.graph[other] & self.chosen}
            queue.extend([*pair, *filled, *sorted(near)])

    def _fill(self, candidates: Iterable[int]) -> list[int]:
        filled = []
        for vertex in candidates:
            if not self.tight[vertex] and vertex not in self.chosen:
                self._add(vertex)
                filled.append(vertex)
        return filled

    def _add(self, vertex: int) -> None:
        self.chosen.add(vertex)
        for other in self.graph[vertex]:
            self.tight[other] += 1

    def _remove(self, vertex: int) -> None:
        self.chosen.discard(vertex)
        for other in self.graph[vertex]:
            self.tight[other] -= 1


def _within(graph: Graph, vertices: Collection[int]) -> dict[int, frozenset[int]]:
    kept = frozenset(vertices)
    return {vertex: frozenset(graph[vertex] & kept) for vertex in sorted(kept)}


def _matching(graph: Adjacent) -> tuple[dict[int, int], dict[int, int]]:
    """Return a maximum matching of the bipartite double: left to right, and right to left.

    Each vertex is matched along an augmenting path if there is one. Paths are searched breadth first, and a failed
    search leaves no path through the vertices that it reached, so they are not searched again.
    """
    mate: dict[int, int] = {}
    back: dict[int, int] = {}
    exhausted: set[int] = set()
    for start in graph:
        reached_from: dict[int, int] = {}
        queue = deque([start])
        free = None
        while queue and free is None:
            vertex = queue.popleft()
            for other in sorted(graph[vertex] - exhausted - reached_from.keys()):
                reached_from[other] = vertex
                if other not in back:
                    free = other
                    break
                queue.append(back[other])
        if free is None:
            exhausted |= reached_from.keys()
        while free is not None:
            vertex = reached_from[free]
            mate[vertex], back[free], free = free, vertex, mate.get(vertex)
    return mate, back
