"""Step 5 of CompKE's construction: drop cases whose edits contradict those of other cases.

Two cases conflict if they give one subject and relation different sets of objects. The paper groups conflicting cases
and keeps a random one of each group, without defining a group. Here it is a connected component of the graph with an
edge for each conflict, so in the end every (s, r) has one O'.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from ke_plugin_compke.algebra import Place

Changes = Mapping[Place, frozenset[str]]
"""The edits of a case: subject and relation to the new objects, by key."""


def keep_consistent(cases: Mapping[int, Changes], *, seed: int) -> tuple[int, ...]:
    """Return the cases to keep, in order: those without a conflict, and one of each group of conflicting cases."""
    groups: dict[int, list[int]] = {}
    root = _roots(cases)
    for case in cases:
        groups.setdefault(root[case], []).append(case)
    draw = random.Random(seed)  # noqa: S311  a choice, not a secret
    chosen = {draw.choice(group) for group in groups.values()}
    return tuple(case for case in cases if case in chosen)


def _roots(cases: Mapping[int, Changes]) -> dict[int, int]:
    """Return the first case of each case's component."""
    about: dict[Place, dict[frozenset[str], list[int]]] = {}
    for case, changes in cases.items():
        for place, objects in changes.items():
            about.setdefault(place, {}).setdefault(objects, []).append(case)
    parent = {case: case for case in cases}
    for by_objects in about.values():
        if len(by_objects) > 1:  # all cases of one value conflict with all cases of another, so they form one component
            _join(parent, (case for found in by_objects.values() for case in found))
    return {case: _find(parent, case) for case in cases}


def _join(parent: dict[int, int], cases: Iterable[int]) -> None:
    first, *rest = cases
    for other in rest:
        parent[_find(parent, other)] = _find(parent, first)


def _find(parent: dict[int, int], case: int) -> int:
    while parent[case] != case:
        parent[case] = parent[parent[case]]  # path halving
        case = parent[case]
    return case
