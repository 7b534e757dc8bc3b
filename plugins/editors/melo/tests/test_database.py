"""The vector database against a plain implementation: lists of numbers, one point at a time."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_melo.database import ClusterRules, PlacedQuery, VectorDatabase, place
from ke_plugin_melo.layers import NO_BLOCK, selected

RULES = ClusterRules(radius=1.0)
PAPER = ClusterRules(radius=1.0, published=True)
Point = tuple[float, ...]


class PlainDatabase:
    """Clusters as dictionaries of lists; radii as released, or without growth and overlap."""

    def __init__(self, rules: ClusterRules) -> None:
        self.rules, self.clusters = rules, list[dict[str, Any]]()

    def add(self, query: Point, label: int, block: int) -> None:
        fresh = {"center": query, "radius": self.rules.radius, "label": label, "points": [(query, block)]}
        if not self.clusters:
            self.clusters.append(fresh)
            return
        m, near = min((math.dist(query, one["center"]), at) for at, one in enumerate(self.clusters))
        old = self.clusters[near]
        if m > old["radius"] + self.rules.radius:
            self.clusters.append(fresh)
        elif old["label"] == label:
            old["points"].append((query, block))
            count = len(old["points"])
            old["center"] = tuple(sum(one[0][axis] for one in old["points"]) / count for axis in range(len(query)))
            farthest = max(math.dist(one[0], old["center"]) for one in old["points"])
            old["radius"] = max(self.rules.radius, farthest * (1 if self.rules.published else 1.01))
        elif self.rules.published:
            old["radius"], fresh["radius"] = m / 2 - 1e-5, m / 2 + 1e-5
            inside = [one for one in old["points"] if math.dist(one[0], old["center"]) <= old["radius"]]
            old["points"] = inside or [(old["center"], NO_BLOCK)]
            self.clusters.insert(near + 1, fresh)
        else:
            old["radius"], fresh["radius"] = min(m / 2 - 1e-5, old["radius"]), min(m / 2, self.rules.radius)
            old["points"] = [one for one in old["points"] if math.dist(one[0], old["center"]) <= old["radius"]]
            if old["points"]:
                self.clusters.insert(near + 1, fresh)
            else:
                self.clusters[near] = fresh | {"radius": self.rules.radius}

    def block(self, query: Point) -> int:
        m, near = min((math.dist(query, one["center"]), at) for at, one in enumerate(self.clusters))
        cluster = self.clusters[near]
        if m > cluster["radius"]:
            return NO_BLOCK
        found: int = min(cluster["points"], key=lambda one: math.dist(query, one[0]))[1]
        return found


def row(*query: float) -> Tensor:
    return torch.tensor(query, dtype=torch.float32)


def placed(rules: ClusterRules, *added: tuple[Tensor, Sequence[int]]) -> PlacedQuery:
    """Place queries with their labels; the N-th gets block N."""
    database = VectorDatabase()
    for block, (query, label) in enumerate(added):
        found = place(database, query, label, block, rules)
        database = found.database
    return found


def blocks(database: VectorDatabase, *queries: Tensor) -> list[int]:
    return selected(torch.stack(queries), database.state(torch.device("cpu"))).tolist()


@pytest.mark.parametrize("published", [False, True])
def test_a_sequence_of_queries_equals_the_reference(*, published: bool) -> None:
    rules = evolve(RULES, published=published)
    rng = random.Random(3)
    plain, database, placements = PlainDatabase(rules), VectorDatabase(), set[str]()
    asked = [tuple(rng.uniform(-3, 3) for _ in range(2)) for _ in range(200)]
    for block in range(60):
        query, label = (rng.uniform(-3, 3), rng.uniform(-3, 3)), rng.randrange(3)
        plain.add(query, label, block)
        found = place(database, row(*query), (label,), block, rules)
        database = found.database
        placements.add(found.placement)
        assert [one.radius for one in database.clusters] == pytest.approx([one["radius"] for one in plain.clusters])
        assert [list(one.blocks) for one in database.clusters] == [
            [point[1] for point in one["points"]] for one in plain.clusters
        ]
        assert blocks(database, *(row(*one) for one in asked)) == [plain.block(one) for one in asked]
    assert placements >= {"new", "joined", "split"}
    assert any(cluster.blocks == (NO_BLOCK,) for cluster in database.clusters) == published


def test_a_far_query_gets_its_own_cluster() -> None:
    found = placed(RULES, (row(0, 0), (7,)), (row(0, 2.1), (7,)))
    assert (found.placement, found.distance, found.forgotten) == ("new", pytest.approx(2.1), 0)
    assert blocks(found.database, row(0, 0.9), row(0, 1.05), row(0, 1.2)) == [0, NO_BLOCK, 1]


def test_the_same_target_joins_the_cluster_and_keeps_its_own_block() -> None:
    found = placed(RULES, (row(0, 0), (7, 8)), (row(0, 1.8), (7, 8)))
    (cluster,) = found.database.clusters
    assert (found.placement, cluster.radius, cluster.center.tolist()) == ("joined", 1.0, pytest.approx([0, 0.9]))
    assert blocks(found.database, row(0, 0.1), row(0, 1.7), row(0, 2.0)) == [0, 1, NO_BLOCK]


def test_the_radius_reaches_the_farthest_point() -> None:
    added = [(row(0, step), (7,)) for step in (0, 1.9, 2.5)]
    ours, paper = (placed(rules, *added).database.clusters[0].radius for rules in (RULES, PAPER))
    assert paper == pytest.approx((0 + 1.9 + 2.5) / 3)
    assert ours == pytest.approx(1.01 * paper)


def test_the_radius_leaves_room_for_rounding() -> None:
    """The farther point has the norm 9 and the distance 2. Far below 1% of it, the rounding changes nothing."""
    added = [(row(0, 5), (7,)), (row(0, 9), (7,))]
    none, single, half = (8 * eps for eps in (0.0, 2**-23, 2**-7))
    radii = [
        placed(evolve(one, rounding=rounding), *added).database.clusters[0].radius
        for one in (ClusterRules(radius=2.05), ClusterRules(radius=3.0))
        for rounding in (none, single, half)
    ]
    assert radii == pytest.approx([2.05, 2.05, 2 + 9 / 16, 3.0, 3.0, 3.0])
    (cluster,) = placed(evolve(PAPER, radius=2.05, rounding=half), *added).database.clusters
    assert cluster.radius == 2.05


def test_another_target_splits_the_regions() -> None:
    added = ((row(0, 0), (7,)), (row(0, 1.5), (9,)))
    ours, paper = ([one.radius for one in placed(rules, *added).database.clusters] for rules in (RULES, PAPER))
    assert paper == pytest.approx([0.75 - 1e-5, 0.75 + 1e-5])
    assert ours == pytest.approx([0.75 - 1e-5, 0.75])
    assert sum(ours) < 1.5 <= sum(paper) + 1e-6


def test_points_outside_the_split_region_are_forgotten() -> None:
    added = [(row(0, 0), (7,)), (row(0, 1.6), (7,)), (row(0.8, 0.8), (7,)), (row(1.9, 0.8), (9,))]
    found = placed(RULES, *added)
    assert (found.placement, found.forgotten) == ("split", 2)
    assert [one.blocks for one in found.database.clusters] == [(2,), (3,)]


def test_another_target_of_the_same_prompt_replaces_its_cluster() -> None:
    """Halves of the distance would leave two clusters that no prompt reaches."""
    added = ((row(5, 5), (7,)), (row(5, 5.0001), (9,)))
    found = placed(RULES, *added)
    (cluster,) = found.database.clusters
    assert (found.placement, found.forgotten) == ("replaced", 1)
    assert (cluster.radius, cluster.label, cluster.blocks) == (1.0, (9,), (1,))
    assert len(placed(PAPER, *added).database.clusters) == 2


def test_targets_are_compared_by_their_tokens() -> None:
    """The released code compares sums of token ids: those of (3, 5) and (4, 4) are equal."""
    assert placed(RULES, (row(0, 0), (3, 5)), (row(0, 1), (4, 4))).placement == "split"
