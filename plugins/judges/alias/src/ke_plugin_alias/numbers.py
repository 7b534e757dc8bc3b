"""Numbers in answers: digits with or without thousands separators, or an English word up to twelve."""

from __future__ import annotations

import re
from decimal import Decimal

from ke_plugin_alias import Rule

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER = re.compile(
    r"(?<![\w.])(?:[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|" + "|".join(WORDS) + r")(?![\w]|,\d|\.\d)",
    re.IGNORECASE,
)


def number(text: str) -> Decimal | None:
    """The number that ``text`` is, in its shortest form (3.0 is 3); none if it is anything else."""
    found = numbers(text, "exact")
    return found[0] if found else None


def numbers(text: str, rule: Rule) -> list[Decimal]:
    """Every number in ``text``; the only thing in it (``exact``) or at its start (``prefix``), if the rule says so."""
    text = text.strip()
    if rule in ("contains", "substring"):
        return [_value(match.group()) for match in NUMBER.finditer(text)]
    match = NUMBER.match(text)
    if match is None or (rule == "exact" and text[match.end() :] not in ("", ".")):
        return []
    return [_value(match.group())]


def _value(text: str) -> Decimal:
    text = text.lower()
    value = Decimal(WORDS.index(text)) if text in WORDS else Decimal(text.replace(",", ""))
    return value.to_integral_value() if value == value.to_integral_value() else value.normalize()
