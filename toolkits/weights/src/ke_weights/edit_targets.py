"""Edits with their targets z, optimized or given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from attrs import evolve, frozen
from torch import Tensor

from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_weights.edit_trace import BatchTrace, EditTrace
from ke_weights.given_inputs import GivenTarget
from ke_weights.keys import KeyRows
from ke_weights.optimize import OptimizedTarget
from ke_weights.rewrites import Rewrite


@frozen(kw_only=True, eq=False)
class EditTargets:
    """Edits with their targets and the rows that their keys and states are read from.

    ``abandoned``: ids of edits that a wrapper abandoned, by setting their target to the state that it started from.
    """

    rewrites: tuple[Rewrite, ...]
    targets: tuple[OptimizedTarget | GivenTarget, ...]
    rows: KeyRows
    trace: BatchTrace | None = None
    abandoned: frozenset[str] = frozenset()

    @property
    def z(self) -> Tensor:
        """The targets as columns, float64 [d, N]."""
        return double(torch.stack([target.z for target in self.targets], dim=1))

    def of(self, edits: Sequence[int]) -> Self:
        """Return the targets of ``edits``, given by their places, in the same trace."""
        return evolve(
            self,
            rewrites=tuple(self.rewrites[at] for at in edits),
            targets=tuple(self.targets[at] for at in edits),
            rows=self.rows.of(edits),
        )

    def report(self, left: Tensor) -> dict[str, Any]:
        """Return each edit's optimization result and |z - h| / |z|; ``left`` [d, N] = z - h."""
        return {
            made.id: target.report() | {"missed": float(off) / float(target.z.norm())}
            for made, target, off in zip(self.rewrites, self.targets, left.norm(dim=0), strict=True)
        }

    def traced(self, trace: EditTrace | None) -> Self:
        """Return these targets as a new batch of ``trace``, if there is a trace."""
        if trace is None:
            return self
        losses = {
            made.id: target.losses
            for made, target in zip(self.rewrites, self.targets, strict=True)
            if isinstance(target, OptimizedTarget)
        }
        return evolve(self, trace=trace.begin([made.id for made in self.rewrites], self.z, losses))

    def record(self, layer: int, keys: Tensor, residuals: Tensor, update: LowRank) -> None:
        """Record keys [f, N], residuals [d, N] and update [d, f] of ``layer``, if there is a trace."""
        if self.trace is not None:
            self.trace.record(layer, keys, residuals, left=update.left, right=update.right)

    def record_filtered(self, layer: int, update: Delta) -> None:
        """Record the update [d, f] of ``layer`` that wrappers made of the solved one, if there is a trace."""
        if self.trace is None:
            return
        if isinstance(update, Dense):
            identity = torch.eye(len(update.delta), dtype=torch.float64)
            self.trace.replace_update(layer, left=identity, right=update.delta)
        else:
            self.trace.replace_update(layer, left=update.left, right=update.right)
