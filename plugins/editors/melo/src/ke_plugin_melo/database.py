"""The vector database: clusters of queries, and the rules that add a query to it.

::

    j = argmin_c |q - center_c|,  m = |q - center_j|
    new:     m > radius_j + radius          a cluster of q
    joined:  label_j = label                add q to cluster j; center_j = mean of its points,
                                            radius_j = max(radius, distance of its farthest point)
    split:   label_j != label               a cluster of q; radius_j and its own radius are half of m,
                                            and points of cluster j outside of radius_j are forgotten
    replaced:  no point of cluster j left   cluster j is removed, and that of q gets the whole radius

A label is the target of an edit. The value of a point is the LoRA block that was trained for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from attrs import evolve, frozen
from torch import Tensor

from ke_plugin_melo.layers import NO_BLOCK, distances

BORDER = 1e-5
"""Subtracted from the half of a distance, as published, so that two split clusters do not share a point."""
MARGIN = 1.01
"""Factor on the radius of a grown cluster, at least: in another batch, the same distance rounds differently."""
SAME_QUERY = 1e-3
"""Distance relative to the query below which two queries belong to the same prompt."""

Placement = Literal["new", "joined", "split", "replaced"]


@frozen(kw_only=True, eq=False)
class QueryCluster:
    """``center`` [d] and ``radius`` of its ``points`` [n, d]; their ``blocks``; and the ``label`` that they share."""

    center: Tensor
    radius: float
    label: tuple[int, ...]
    points: Tensor
    blocks: tuple[int, ...]


@frozen(kw_only=True)
class ClusterRules:
    """``radius``: of a new cluster. ``published``: radii as released.

    ``rounding``: how much a distance may differ in another batch, relative to the query.
    """

    radius: float
    published: bool = False
    rounding: float = 0.0


@frozen(kw_only=True, eq=False)
class VectorDatabase:
    """Clusters of queries in CPU memory, float32, so that equal edits give equal clusters on every device."""

    clusters: tuple[QueryCluster, ...] = ()

    def state(self, device: torch.device) -> dict[str, Tensor]:
        """Return the state of ``select_blocks``: empty without clusters."""
        if not self.clusters:
            return {}
        owners = [number for number, cluster in enumerate(self.clusters) for _block in cluster.blocks]
        found = {
            "centers": torch.stack([cluster.center for cluster in self.clusters]),
            "radii": torch.tensor([cluster.radius for cluster in self.clusters], dtype=torch.float32),
            "points": torch.cat([cluster.points for cluster in self.clusters]),
            "clusters": torch.tensor(owners),
            "blocks": torch.tensor([block for cluster in self.clusters for block in cluster.blocks]),
        }
        return {name: tensor.to(device) for name, tensor in found.items()}


@frozen(kw_only=True, eq=False)
class PlacedQuery:
    """The database with a query, how it was placed, its distance to the nearest center, and the forgotten points."""

    database: VectorDatabase
    placement: Placement
    distance: float | None = None
    forgotten: int = 0


def place(
    database: VectorDatabase, query: Tensor, label: Sequence[int], block: int, rules: ClusterRules
) -> PlacedQuery:
    """Add the ``query`` [d] of an edit with that ``label``, for which ``block`` was trained."""
    clusters = database.clusters
    fresh = QueryCluster(center=query, radius=rules.radius, label=tuple(label), points=query[None], blocks=(block,))
    if not clusters:
        return PlacedQuery(database=VectorDatabase(clusters=(fresh,)), placement="new")
    centers = torch.stack([cluster.center for cluster in clusters])
    near = int(distances(query[None], centers).argmin())
    m, nearest = float(distances(query[None], centers)[0, near]), clusters[near]
    if m > nearest.radius + rules.radius:
        return PlacedQuery(database=VectorDatabase(clusters=(*clusters, fresh)), placement="new", distance=m)
    if nearest.label == fresh.label:
        changed: tuple[QueryCluster, ...] = (joined(nearest, query, block, rules),)
        placement: Placement = "joined"
        forgotten = 0
    else:
        changed = split(nearest, fresh, m, rules)
        placement = "split" if len(changed) > 1 else "replaced"
        left = [block for one in changed[:-1] for block in one.blocks if block != NO_BLOCK]
        forgotten = len(nearest.blocks) - nearest.blocks.count(NO_BLOCK) - len(left)
    found = (*clusters[:near], *changed, *clusters[near + 1 :])
    return PlacedQuery(database=VectorDatabase(clusters=found), placement=placement, distance=m, forgotten=forgotten)


def joined(cluster: QueryCluster, query: Tensor, block: int, rules: ClusterRules) -> QueryCluster:
    """Return the cluster with one more point."""
    points = torch.cat([cluster.points, query[None]])
    center = points.double().mean(0).float()
    apart = distances(points, center[None])[:, 0]
    farthest = float(apart.max())
    if not rules.published:
        farthest = max(farthest * MARGIN, float((apart + rules.rounding * points.norm(dim=1)).max()))
    radius = max(rules.radius, farthest)
    return evolve(cluster, center=center, radius=radius, points=points, blocks=(*cluster.blocks, block))


def split(cluster: QueryCluster, fresh: QueryCluster, m: float, rules: ClusterRules) -> tuple[QueryCluster, ...]:
    """Return what is left of the cluster, if anything is, and the new one with another label at the distance ``m``."""
    old, new = m / 2 - BORDER, m / 2 + BORDER
    if not rules.published:  # no region grows, and the two do not overlap
        old, new = min(old, cluster.radius), min(m / 2, rules.radius)
    inside = (distances(cluster.points, cluster.center[None])[:, 0] <= old).nonzero()[:, 0]
    if not rules.published and (m <= SAME_QUERY * float(fresh.center.norm()) or not len(inside)):
        return (fresh,)
    left = evolve(
        cluster, radius=old, points=cluster.points[inside], blocks=tuple(cluster.blocks[at] for at in inside.tolist())
    )
    if not len(inside):  # as released: its region selects no block
        left = evolve(left, points=cluster.center[None], blocks=(NO_BLOCK,))
    return left, evolve(fresh, radius=new)
