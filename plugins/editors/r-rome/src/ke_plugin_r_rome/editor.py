"""R-ROME (Gupta et al. 2024): ROME's update with one key k in every place.

u      = C^-1 k, normed
v*     = ROME's
W     += (v* - W k - b) u^T / (k . u)

so that W k + b = v*, and the denominator, k^T C^-1 k up to scale, is positive whatever the edit: no update blows up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Direct, Edit, Edited, Session, UnsupportedEdit
from ke_core.weights import (
    Grounds,
    LowRank,
    OpenModel,
    average_keys,
    bare_keys,
    bare_values,
    project,
    weighed,
    write,
)
from ke_plugin_r_rome import RRomeConfig, settings

CONTEXTS = ((5, 10), (10, 10))  # left contexts: ten of five tokens, ten of ten, as in ROME


class RRome:
    """Writes one edit into one layer."""

    def __init__(self, config: RRomeConfig) -> None:
        self.config = config
        self.grounds = Grounds(
            config=config,
            settle=settings,
            layers=lambda found: (found["layer"].value,),
            contexts=CONTEXTS,
            weighs=config.mom2_adjustment,
        )

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze, without exactly one new object, too long, or contradicting an earlier one."""
        return self.grounds.unmakeable(session, edits)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make one edit. Raises UnsupportedEdit for more, and EditFailed where the numbers go wrong."""
        if not edits:
            yield Direct(session)
            return
        if len(edits) > 1:
            raise UnsupportedEdit(f"r-rome makes one edit at a time, not {len(edits)}", hint="make one after another")
        with self.grounds.under(session, edits) as ground, session.model.patch() as weights:
            layer, modules = ground["layer"], ground.modules
            wanted = ground.wanted(session, edits, layer, "mlp")
            if self.config.key == "contexts":
                key = average_keys(modules, wanted.rows, layer, uniform=True)[:, 0].double()
            else:
                key = bare_keys(modules, wanted.rows, layer)[:, 0].double()
            along = weighed(ground.moments.get(layer), key)
            direction = along / along.norm()
            change = (wanted.z[:, 0] - project(modules, layer, key)) / (key @ direction)
            relative = write(weights, modules, layer, LowRank(left=change[:, None], right=direction[None]))
            left = wanted.z - bare_values(modules, wanted.rows, layer)
            yield Direct(session, ground.details({str(layer): relative}, wanted.report(left)))
