"""A fair sample of what can be gone through once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def draw(items: Iterable[T], number: int, seed: int) -> list[T]:
    """``number`` of the items (all, if there are fewer), each as likely as any other, in their own order.

    Kept are ``number`` of them at a time, however many there are (Vitter 1985, algorithm R).
    """
    dice = random.Random(seed)  # noqa: S311  not a secret
    kept: list[tuple[int, T]] = []
    for place, item in enumerate(items):
        if place < number:
            kept.append((place, item))
            continue
        thrown = dice.randrange(place + 1)
        if thrown < number:
            kept[thrown] = (place, item)
    return [item for _place, item in sorted(kept, key=lambda pair: pair[0])]
