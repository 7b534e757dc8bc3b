"""Select as many cases as possible whose edits do not affect each other, to evaluate a weight editor with all of them.

A weight editor cannot hide an edit from a case, so all edits of a set must be true together (the purpose of
MQuAKE-Remastered-CF-6334). Two cases exclude each other if an edit of one rewrites a hop of the other, if they rewrite
one fact to different objects, or if they are duplicates. A set without such a pair is an independent set of the
exclusion graph. Dropping every contaminated case is simpler, but leaves fewer: one case may contaminate many. The
result is deterministic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Literal

from attrs import frozen

from ke_benchmarks.audit.bank import AuditBank, edits_with_facts
from ke_benchmarks.audit.contamination import contamination
from ke_benchmarks.audit.independent import Graph, largest
from ke_benchmarks.audit.pairs import conflicts, duplicates
from ke_core.plugin import Case

IDENTITIES: tuple[Literal["question", "id"], ...] = ("question", "id")
"""A pair is excluded if either rule excludes it: every other rule falls back on one of the two."""


@frozen(kw_only=True)
class Selection:
    """``cases`` in file order. ``bound``: no set can be larger. ``exclusions``: pairs that cannot be together.

    ``victims``: number of cases that other edits contaminate, contradict or repeat if all are edited, by question text.
    Dropping all of them is the simpler method.
    """

    cases: tuple[Case, ...]
    bound: int
    exclusions: int
    victims: int


def select(cases: Sequence[Case]) -> Selection:
    """Return a maximal set of cases without ``contamination``, ``conflicts`` and ``duplicates`` by any rule."""
    graph = exclusions(cases)
    found = largest(graph)
    dirty = {hit.case for hit in contamination(cases, [case.id for case in cases]).on_edited}
    dirty |= {case for conflict in conflicts(cases) for case in conflict.cases}
    dirty |= {case for group in duplicates(cases) for case in group[1:]}
    return Selection(
        cases=tuple(cases[at] for at in sorted(found.chosen)),
        bound=found.bound,
        exclusions=sum(len(others) + (at in others) for at, others in enumerate(graph)) // 2,
        victims=len(dirty),
    )


def exclusions(cases: Sequence[Case]) -> Graph:
    """Return for each case, by position, those it cannot be edited with, including itself if it contradicts itself.

    Every rule compares hop by hop, so a set is valid if all its pairs are.
    """
    places = {case.id: at for at, case in enumerate(cases)}
    graph: Graph = tuple(set() for _case in cases)
    for rule in IDENTITIES:
        bank = AuditBank.of(cases, rule)
        for at, case in enumerate(cases):
            own = {bank.key(fact) for _edit, fact in edits_with_facts(case)}
            for fact in (hop for hop in case.facts_after if bank.key(hop) not in own):
                _exclude(graph, {at}, {places[name] for names in bank.against(fact).values() for name in names})
        for conflict in conflicts(cases, rule):
            for (_fact, ours), (_other, theirs) in combinations(conflict.targets, 2):
                _exclude(graph, {places[case] for case in ours}, {places[case] for case in theirs})
    for group in duplicates(cases):
        members = {places[case] for case in group}
        for member in members:
            graph[member].update(members - {member})
    return graph


def _exclude(graph: Graph, these: Iterable[int], those: Collection[int]) -> None:
    """Record that none of ``these`` can be edited together with any of ``those``."""
    for one in these:
        graph[one].update(those)
        for other in those:
            graph[other].add(one)
