"""Step 5 of CompKE's construction: cases whose edits contradict one another are not kept together.

Two cases conflict where they give one subject and relation different object sets, in whatever order. The paper groups
the conflicting cases and keeps one of each group at random, without saying what a group is; here it is a connected
component of the graph over cases with an edge for each conflict. So at the end every (s, r) has one O'.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from ke_plugin_compke.algebra import Place

Changes = Mapping[Place, frozenset[str]]
"""What a case edits: subject and relation to the new objects, by key."""


def keep_consistent(cases: Mapping[int, Changes], *, seed: int) -> tuple[int, ...]:
    """The cases that stay, in order: those without a conflict, and one of each group of conflicting ones."""
    groups: dict[int, list[int]] = {}
    root = _roots(cases)
    for case in cases:
        groups.setdefault(root[case], []).append(case)
    draw = random.Random(seed)  # noqa: S311  a choice, not a secret
    chosen = {draw.choice(group) for group in groups.values()}
    return tuple(case for case in cases if case in chosen)


def _roots(cases: Mapping[int, Changes]) -> dict[int, int]:
    """Case to the first case of its component."""
    about: dict[Place, dict[frozenset[str], list[int]]] = {}
    for case, changes in cases.items():
        for place, objects in changes.items():
            about.setdefault(place, {}).setdefault(objects, []).append(case)
    parent = {case: case for case in cases}
    for by_objects in about.values():
        if len(by_objects) > 1:  # whoever says X conflicts with whoever says Y: all of them hang together
            _join(parent, (case for found in by_objects.values() for case in found))
    return {case: _find(parent, case) for case in cases}


def _join(parent: dict[int, int], cases: Iterable[int]) -> None:
    first, *rest = cases
    for other in rest:
        parent[_find(parent, other)] = _find(parent, first)


def _find(parent: dict[int, int], case: int) -> int:
    while parent[case] != case:
        parent[case] = parent[parent[case]]  # halve the way for the next one
        case = parent[case]
    return case
