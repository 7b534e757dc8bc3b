"""MEMIT's algorithm (Meng et al. 2023, algorithm 1).

for each edit:              z_i = argmin of the loss of equation 16, on the unedited model
for l in layers, ascending:
    k_i = key at l          (average over left contexts, on the model with the layers below l edited)
    r_i = (z_i - h_i) / (number of layers from l to the last)      (h_i: state at the last of the layers, now)
    W_l += R K^T (lambda C_l + K K^T)^-1                           (equation 14)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ke_core.plugin import Direct, Edit, Edited, Session
from ke_core.weights import Grounds, LowRank, OpenModel, ridge_update, spread
from ke_plugin_memit import MemitConfig, settings


class Memit:
    """Writes a batch of edits into the weights of several layers at once."""

    def __init__(self, config: MemitConfig) -> None:
        self.grounds = Grounds(
            config=config,
            settle=settings,
            layers=lambda found: found["layers"].value,
            contexts=((config.template_length, 5),),
        )

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze, without exactly one new object, too long, or contradicting an earlier one."""
        return self.grounds.unmakeable(session, edits)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` together. Raises UnsupportedEdit, and EditFailed where the numbers go wrong."""
        if not edits:
            yield Direct(session)
            return
        with self.grounds.under(session, edits) as ground, session.model.patch() as weights:
            layers, weight = ground["layers"], ground["mom2_weight"]
            wanted = ground.wanted(session, edits, layers[-1], "block")

            def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
                return ridge_update(ground.moments[layer], keys, residual, weight)

            norms, left = spread(weights, ground.modules, wanted, layers, solve)
            yield Direct(session, ground.details(norms, wanted.report(left)))
