"""What the publishers of an audit print of a dataset."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

Victims = tuple[int, int]
"""Contaminated cases, contaminated sub-questions."""


@frozen(kw_only=True)
class PublishedAudit:
    """Printed figures, to stand beside those of ``ke audit``. ``source`` says where they are printed.

    ``on_unedited`` and ``on_edited``: how many cases are edited to the victims among the others, and among themselves.
    ``seed``: the victims are of cases drawn with it. ``duplicates``: cases that repeat another. ``missing``: cases
    whose questions leave out a piece of their chain.
    """

    source: str
    seed: int = 100
    on_unedited: Mapping[int, Victims] = field(factory=dict)
    on_edited: Mapping[int, Victims] = field(factory=dict)
    missing: int | None = None
    duplicates: int | None = None
