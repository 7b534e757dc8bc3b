"""Reasons that differ only in their numbers, told as one: each prompt that is too long has a length of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

NUMBER = re.compile(r"\d+")


def alike(reasons: Mapping[str, int]) -> Counter[str]:
    """``reasons`` with those that differ only in numbers as one, which names the least and the greatest of each."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for reason in reasons:
        groups.setdefault(tuple(NUMBER.split(reason)), []).append(reason)
    return Counter({_told(words, same): sum(reasons[one] for one in same) for words, same in groups.items()})


def _told(words: tuple[str, ...], reasons: list[str]) -> str:
    if len(reasons) == 1:
        return reasons[0]
    columns = zip(*(map(int, NUMBER.findall(reason)) for reason in reasons), strict=True)
    ranges = [f"{min(column)}" if len(set(column)) == 1 else f"{min(column)} to {max(column)}" for column in columns]
    return "".join(word + number for word, number in zip(words, (*ranges, ""), strict=True))
