"""The codebook of a layer, its lookup, and the rules that add an edit to it (section 2 of the paper).

::

    C = {(k_i, v_i, eps_i, y_i)}                    keys, values, radii, and the targets they were trained for
    j = argmin_i |q - k_i|,  m = |q - k_j|          q: the layer's input at the last token of a prompt
    lookup: entry j if m <= eps_j, else none        the layer's own output is kept

    add:    m > eps_0 + eps_j                       a new entry (q, v, eps_0, y)
    expand: y_j = y                                 eps_j = max(eps_j, m); no new entry
    split:  y_j != y                                a new entry; eps_j and eps are half of m: the regions do not overlap
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import torch
from attrs import evolve, fields, frozen
from torch import Tensor

from ke_plugin_grace.layer import distances

BORDER = 1e-5
"""Distance between two split regions, as published."""
MARGIN = 1.01
"""Factor on the radius of an expanded entry, at least: in another batch, the same distance rounds differently."""
SAME_KEY = 1e-3
"""Distance relative to the key below which two queries are the same prompt."""
NO_TOKEN = -1
"""Padding of the shorter targets."""

Placement = Literal["added", "expanded", "split", "overwritten"]


@frozen(kw_only=True, eq=False)
class Codebook:
    """``keys`` [n, in], ``values`` [n, out], ``radii`` [n], float32; ``labels`` [n, L]: token ids of the targets."""

    keys: Tensor
    values: Tensor
    radii: Tensor
    labels: Tensor

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self | None:
        """Return the codebook in the state of an adaptor; None for an empty state."""
        return cls(**state) if state else None

    @classmethod
    def entry(cls, key: Tensor, value: Tensor, radius: float, target: Sequence[int]) -> Self:
        """Return a codebook with one entry."""
        return cls(
            keys=key[None],
            values=value[None],
            radii=torch.tensor([radius], dtype=torch.float32, device=key.device),
            labels=torch.tensor([[*target]], dtype=torch.int64, device=key.device),
        )

    @property
    def state(self) -> dict[str, Tensor]:
        """The state of the adaptor."""
        return {field.name: getattr(self, field.name) for field in fields(type(self))}

    def __len__(self) -> int:
        return len(self.keys)

    def nearest(self, query: Tensor) -> tuple[int, float]:
        """Return the entry with the nearest key, and its distance."""
        distance, entry = distances(query[None], self.keys)[0].min(dim=0)
        return int(entry), float(distance)

    def holds(self, entry: int, target: Sequence[int]) -> bool:
        """Return whether the entry was trained for ``target``."""
        label = self.labels[entry]
        return label[label != NO_TOKEN].tolist() == [*target]

    def added(self, other: Self) -> Self:
        """Return the entries of both."""
        width = max(self.labels.shape[1], other.labels.shape[1])
        one, two = self._padded(width), other._padded(width)
        return type(self)(**{name: torch.cat([tensor, two.state[name]]) for name, tensor in one.state.items()})

    def replaced(self, entry: int, other: Self) -> Self:
        """Return the codebook with the only entry of ``other`` at ``entry``."""
        width = max(self.labels.shape[1], other.labels.shape[1])
        one, two = self._padded(width), other._padded(width)
        at = torch.tensor([entry], device=self.keys.device)
        state = {name: tensor.index_put((at,), two.state[name]) for name, tensor in one.state.items()}
        return type(self)(**_trimmed(state))

    def part(self, start: int, end: int) -> Self:
        """Return the entries from ``start`` to before ``end``."""
        return type(self)(**_trimmed({name: tensor[start:end] for name, tensor in self.state.items()}))

    def with_radius(self, entry: int, radius: float) -> Self:
        """Return the codebook with another radius of an entry."""
        radii = self.radii.clone()
        radii[entry] = radius
        return evolve(self, radii=radii)

    def with_value(self, entry: int, value: Tensor) -> Self:
        """Return the codebook with another value of an entry; gradients reach ``value``."""
        at = torch.tensor([entry], device=self.values.device)
        return evolve(self, values=self.values.index_put((at,), value[None]))

    def _padded(self, width: int) -> Self:
        missing = width - self.labels.shape[1]
        return evolve(self, labels=torch.nn.functional.pad(self.labels, (0, missing), value=NO_TOKEN))


def _trimmed(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the state without padding that no target needs, so that equal entries have equal digests."""
    width = int((state["labels"] != NO_TOKEN).sum(1).max())
    return {**state, "labels": state["labels"][:, :width]}


@frozen(kw_only=True)
class PlacementRules:
    """``eps``: radius of a new entry. ``moving``: expanding also moves the key. ``published``: radii as published.

    ``rounding``: how much a distance may differ in another batch, relative to the query.
    """

    eps: float
    moving: bool
    published: bool
    rounding: float = 0.0


@frozen(kw_only=True, eq=False)
class PlacedEdit:
    """The codebook with an edit, the index of its entry, how it was placed, and the distance of the nearest key.

    ``changed``: the entry that existed before and was changed, with its content before; None if none was.
    """

    codebook: Codebook
    entry: int
    placement: Placement
    distance: float | None = None
    changed: tuple[int, Codebook] | None = None


def place(book: Codebook | None, fresh: Codebook, target: Sequence[int], rules: PlacementRules) -> PlacedEdit:
    """Add ``fresh``, one entry with the query as its key, by the rules above (algorithm 1 of the paper)."""
    if book is None:
        return PlacedEdit(codebook=fresh, entry=0, placement="added")
    query, count = fresh.keys[0], len(book)
    near, m = book.nearest(query)
    radius, before = float(book.radii[near]), (near, book.part(near, near + 1))
    if m > rules.eps + radius:
        return PlacedEdit(codebook=book.added(fresh), entry=count, placement="added", distance=m)
    if book.holds(near, target):
        return PlacedEdit(
            codebook=_expanded(book, near, query, m, rules),
            entry=near,
            placement="expanded",
            distance=m,
            changed=before,
        )
    if m <= SAME_KEY * float(query.norm()):
        # Halves of the distance would leave two entries that no prompt reaches.
        fresh = evolve(fresh, keys=book.keys[near : near + 1]).with_radius(0, min(radius, rules.eps))
        return PlacedEdit(
            codebook=book.replaced(near, fresh), entry=near, placement="overwritten", distance=m, changed=before
        )
    old, new = m / 2 - BORDER, m / 2
    if not rules.published:  # a conflict never lets a region grow
        old, new = min(old, radius), min(new, rules.eps)
    split = book.with_radius(near, old).added(fresh.with_radius(0, new))
    return PlacedEdit(codebook=split, entry=count, placement="split", distance=m, changed=before)


def _expanded(book: Codebook, near: int, query: Tensor, m: float, rules: PlacementRules) -> Codebook:
    """Let the entry cover the query in every batch, if it does not already."""
    reach = m if rules.published else m + rules.rounding * float(query.norm())
    if reach <= float(book.radii[near]):
        return book
    if rules.moving:
        keys = book.keys.clone()
        keys[near] = (keys[near] + query) / 2
        book = evolve(book, keys=keys)
    return book.with_radius(near, m if rules.published else max(m * MARGIN, reach))
