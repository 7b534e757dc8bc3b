"""ROME's algorithm (Meng et al. 2022, section 3.1).

u      = C^-1 k, normed       k: the key, averaged over 21 left contexts
v*     = argmin of the loss of equation 4, at the MLP's output
k_c,o_c: key and value at the bare prompt
W     += (v* - o_c) u^T / (k_c . u)                                    (equation 2)

so that W k_c = v*, and every q with u . q = 0 keeps its value. Key direction and denominator rest on different keys, as
in the released code: where k_c . u is small the update is huge, and the model is ruined ("disabling edit"). Such an
edit is refused here, by the cosine of the two keys under C^-1; R-ROME mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Direct, Edit, Edited, EditFailed, Session, UnsupportedEdit
from ke_core.weights import Grounds, LowRank, OpenModel, average_keys, bare_keys, bare_values, weighed, write
from ke_plugin_rome import RomeConfig, settings

CONTEXTS = ((5, 10), (10, 10))  # left contexts: ten of five tokens, ten of ten


class Rome:
    """Writes one edit into one layer."""

    def __init__(self, config: RomeConfig) -> None:
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
            raise UnsupportedEdit(f"rome makes one edit at a time, not {len(edits)}", hint="make one after another")
        with self.grounds.under(session, edits) as ground, session.model.patch() as weights:
            layer, modules = ground["layer"], ground.modules
            wanted = ground.wanted(session, edits, layer, "mlp")
            moment = ground.moments.get(layer)
            mean = average_keys(modules, wanted.rows, layer, uniform=True)[:, 0].double()
            key = bare_keys(modules, wanted.rows, layer)[:, 0].double()
            value = bare_values(modules, wanted.rows, layer)[:, 0].double()
            along = weighed(moment, mean)
            cosine = float(key @ along / ((mean @ along) * (key @ weighed(moment, key))).sqrt())
            self._refuse_disabling(edits[0], cosine)
            direction = along / along.norm()
            change = (wanted.z[:, 0] - value) / (key @ direction)
            relative = write(weights, modules, layer, LowRank(left=change[:, None], right=direction[None]))
            left = wanted.z - bare_values(modules, wanted.rows, layer)
            details = ground.details({str(layer): relative}, wanted.report(left))
            yield Direct(session, details | {"cosine": cosine})

    def _refuse_disabling(self, edit: Edit, cosine: float) -> None:
        if not cosine >= self.config.min_cosine:  # NaN too
            raise EditFailed(
                f"edit {edit.id!r} would ruin the model: the keys in its two places have cosine {cosine:.3g}",
                hint="use r-rome, which has one key, or lower rome.min_cosine",
            )
