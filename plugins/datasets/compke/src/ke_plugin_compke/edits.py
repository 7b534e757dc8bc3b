"""Step 4 of CompKE's construction: replace O with a counterfactual O' by adding, deleting and keeping objects.

Edits depend on subject, relation, seed and ``salt`` only. Without salt, all cases share one counterfactual world: no
two cases edit one fact differently, and none depends on a fact that another edits. With the case's number as salt,
each case has its own world, as in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from attrs import field, frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_plugin_compke.algebra import Keys, Place

MOST_NEW = 2  # maximum number of objects that an edit adds


@frozen(kw_only=True, slots=False)
class Counterfactual:
    """The graph with edits applied.

    ``share``: fraction of the facts that are edited. ``pools``: relation to possible new objects, by key.
    """

    graph: KnowledgeGraph
    pools: Mapping[str, Keys]
    share: float
    seed: int
    salt: str = ""
    _made: dict[Place, tuple[Keys, Keys]] = field(factory=dict, init=False, repr=False)

    def before(self, subject: str, relation: str) -> Keys:
        """Return the objects in the graph."""
        return self._both(subject, relation)[0]

    def after(self, subject: str, relation: str) -> Keys:
        """Return the objects after all edits."""
        return self._both(subject, relation)[1]

    def _both(self, subject: str, relation: str) -> tuple[Keys, Keys]:
        place = subject, relation
        if place not in self._made:
            old = tuple(found.key for found in self.graph.objects(subject, relation))
            self._made[place] = old, (self._edited(subject, relation, old) or old if old else old)
        return self._made[place]

    def _edited(self, subject: str, relation: str, old: Keys) -> Keys:
        """Return O', which is never empty, or an empty tuple if the fact is not edited."""
        draw = random.Random(f"{self.seed}/{self.salt}/{relation}/{subject}")  # noqa: S311  a choice, not a secret
        if draw.random() >= self.share:
            return ()
        fresh = [key for key in self.pools[relation] if key not in old and key != subject]
        if self.graph.links[relation].functional:
            return (draw.choice(fresh),) if fresh else ()
        ways = ["add", "replace"] if fresh else []
        ways += ["delete"] if len(old) > 1 else []
        ways += ["mixed"] if len(old) > 1 and fresh else []
        if not ways:
            return ()
        way = draw.choice(ways)
        if way == "replace":
            return tuple(draw.sample(fresh, min(len(fresh), len(old), MOST_NEW)))
        some = old if way == "add" else draw.sample(old, draw.randint(1, len(old) - 1))
        new = [] if way == "delete" else draw.sample(fresh, min(len(fresh), draw.randint(1, MOST_NEW)))
        return (*(key for key in old if key in some), *new)
