"""Tensors that adaptors keep of each row while it is decoded, attached to the cache of its keys and values.

A decision that depends on the prompt (WISE's routing) is made when the prompt is read, and used for every later token.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

KEPT = "ke_kept"
"""Attribute of a cache: the kept tensors [rows, ...] by the number of the adaptor."""


def keep(cache: Any, adaptor: int, rows: Tensor) -> None:
    """Attach ``rows``, what the adaptor with that number keeps of each row of the cache."""
    setattr(cache, KEPT, kept_of(cache) | {adaptor: rows})


def kept_of(cache: Any) -> dict[int, Tensor]:
    """Return the tensors that adaptors keep of the rows of a cache, by the number of the adaptor."""
    found: dict[int, Tensor] = getattr(cache, KEPT, {})
    return found


def select_kept(cache: Any, rows: Tensor) -> None:
    """Drop what is kept of all rows except ``rows``, int64."""
    setattr(cache, KEPT, {number: kept[rows.to(kept.device)] for number, kept in kept_of(cache).items()})


def join_kept(cache: Any, other: Any) -> None:
    """Append what is kept of the rows of another cache, which the same adaptors have read."""
    more = kept_of(other)
    setattr(cache, KEPT, {number: torch.cat([kept, more[number]]) for number, kept in kept_of(cache).items()})
