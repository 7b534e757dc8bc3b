"""Rows of tokens whose states at one block are moved by an offset, and the positions of them that are scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from attrs import define, evolve
from torch import Tensor, nn

from ke_weights.hooks import Hooks
from ke_weights.modules import ModuleMap
from ke_weights.subject import SubjectTokens
from ke_weights.tail import Tail, open_tail

Held = tuple[tuple[int, Tensor], ...]
"""Positions of a row before the offset, with the states [d] that replace the block's output there."""
Site = Literal["block", "mlp", "attention+mlp"]
"""The outputs of a block that are moved: its own, its MLP's, or its attention's and its MLP's."""


@define(eq=False)
class OffsetRows:
    """Rows that continue from the offset at a block: ``per_edit`` per edit, with the offset in ``column`` [rows].

    ``sites``: the modules whose outputs are moved; none if the offset is added to the output of the block.
    """

    tail: Tail
    column: Tensor
    per_edit: int
    sites: tuple[nn.Module, ...]

    @classmethod
    def open(
        cls,
        modules: ModuleMap,
        rows: Sequence[SubjectTokens],
        per_edit: int,
        layer: int,
        site: Site,
        held: Sequence[Held] = (),
    ) -> OffsetRows:
        """Open the rows of all edits, edit by edit. ``held``: of each row, if any row has them."""
        place = modules.layers[layer]
        inside = site == "attention+mlp"
        first = [
            SubjectTokens(row.ids, min((row.index, *(at for at, _state in states))))
            for row, states in zip(rows, held or [()] * len(rows), strict=True)
        ]
        tail = open_tail(modules, first, layer - 1 if inside else layer)
        tail = evolve(tail, hidden=_with_states(tail, held))
        index = torch.tensor([row.index for row in rows], device=tail.hidden.device)
        sites = (place.attention_out, place.projection) if inside else ()
        return cls(tail, index - tail.start.to(index.device), per_edit, sites)

    def run(self, delta: Tensor) -> Tensor:
        """Return the last block's output with each edit's offsets of ``delta`` [E, sites, d]; differentiable."""
        hidden = self.tail.hidden
        if not self.sites:
            offset = self._placed(delta[:, 0])
            return self.tail.run((hidden.to(offset.dtype) + offset).to(hidden.dtype))
        with self._moving(delta):
            return self.tail.run(hidden)

    @contextmanager
    def _moving(self, delta: Tensor) -> Iterator[None]:
        """Add the offsets to the outputs of ``sites`` while the block runs."""
        with Hooks() as hooks:
            for at, site in enumerate(self.sites):
                offset = self._placed(delta[:, at])

                def moved(states: Tensor, offset: Tensor = offset) -> Tensor:
                    return (states.to(offset.dtype) + offset.to(states.device).reshape(states.shape)).to(states.dtype)

                hooks.change(site, moved)
            yield

    def _placed(self, delta: Tensor) -> Tensor:
        """Return offsets [rows, S, d] that are zero except in ``column``, of ``delta`` [E, d]."""
        hidden = self.tail.hidden
        offset = torch.zeros(hidden.shape, dtype=delta.dtype, device=hidden.device)
        every = torch.arange(len(hidden), device=hidden.device)
        placed = delta.to(hidden.device).repeat_interleave(self.per_edit, dim=0)
        return offset.index_put((every, self.column), placed)

    def of(self, edits: Tensor) -> Tensor:
        """Return the indices of the rows of ``edits``."""
        return (edits[:, None] * self.per_edit + torch.arange(self.per_edit, device=edits.device)).flatten()

    def keep(self, edits: Tensor) -> OffsetRows:
        """Keep only the rows of ``edits``."""
        rows = self.of(edits)
        return evolve(self, tail=self.tail.keep(rows), column=self.column[rows])


def _with_states(tail: Tail, held: Sequence[Held]) -> Tensor:
    """Return the tail's hidden states with the ``held`` ones in their places."""
    hidden = tail.hidden.clone()
    for row, states in enumerate(held):
        for at, state in states:
            hidden[row, at - int(tail.start[row])] = state.to(hidden)
    return hidden


@define(eq=False)
class ScoredPositions:
    """Scored positions with their tokens and edits: parallel arrays of length M."""

    row: Tensor
    column: Tensor
    token: Tensor
    weight: Tensor
    edit: Tensor

    def of(self, edits: Tensor, rows: Tensor) -> ScoredPositions:
        """Keep only those of ``edits``, whose rows are ``rows``, and renumber them."""
        keep = torch.isin(self.edit, edits)
        row = torch.searchsorted(rows, self.row[keep])
        return ScoredPositions(
            row, self.column[keep], self.token[keep], self.weight[keep], torch.searchsorted(edits, self.edit[keep])
        )
