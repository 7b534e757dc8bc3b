"""Independent sets, compared with an exhaustive search."""

import random
from itertools import combinations

import pytest

from ke_benchmarks.audit.independent import largest


def drawn(seed, n=11):
    chance = random.Random(seed)
    graph = tuple(set() for _vertex in range(n))
    for one, other in combinations(range(n), 2):
        if chance.random() < chance.choice((0.1, 0.2, 0.4)):
            graph[one].add(other)
            graph[other].add(one)
    if seed % 5 == 0:
        graph[3].add(3)
    return graph


def optimum(graph):
    allowed = [vertex for vertex in range(len(graph)) if vertex not in graph[vertex]]
    for size in range(len(allowed), 0, -1):
        for chosen in combinations(allowed, size):
            if not any(other in graph[one] for one, other in combinations(chosen, 2)):
                return size
    return 0


@pytest.mark.parametrize("seed", range(40))
def test_small_graphs_are_solved_exactly_within_the_bound(seed):
    graph = drawn(seed)
    found = largest(graph)
    assert not any(graph[vertex] & found.chosen for vertex in found.chosen)
    assert len(found.chosen) == optimum(graph) <= found.bound
    assert found == largest(graph)


@pytest.mark.parametrize("seed", range(5))
def test_set_of_a_larger_graph_is_maximal(seed):
    graph = drawn(seed, 120)
    found = largest(graph)
    assert not any(graph[vertex] & found.chosen for vertex in found.chosen)
    for vertex in set(range(120)) - found.chosen:
        assert graph[vertex] & (found.chosen | {vertex})


def test_empty_graph_and_graph_of_loops():
    assert largest(()).chosen == frozenset()
    assert largest(({0},)) == largest(({0},))
    assert largest(({0},)).bound == 0
