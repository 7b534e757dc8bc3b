"""Numbers in answers: digits with or without thousands separators, or an English word up to twelve.

A number is read whole: 21 stands neither in "1,021" nor in "21 million", and 1 not in "twenty-one".
"""

from __future__ import annotations

import re
from decimal import Decimal

from ke_plugin_alias import Rule

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("hundred", "thousand", "million", "billion", "trillion")
WORD, SCALE = (rf"\b(?:{'|'.join(some)})\b" for some in ((*WORDS, *TEENS, *TENS, *SCALES), SCALES))
AND = rf"(?:{'|'.join(f'(?<={scale})' for scale in SCALES)}) +and +"  # "three and five" are two numbers
NUMERAL = re.compile(
    rf"(?:(?<!\w)[+-])?(?:(?<![\w.])\.)?\d+(?:[.,]\d+)*(?:(?: +|-){SCALE})*|{WORD}(?:(?: +|-|{AND}){WORD})*",
    re.IGNORECASE,
)
DIGITS = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?\Z")
THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


def number(text: str) -> Decimal | None:
    """The number that ``text`` is, in its shortest form (3.0 is 3); none if it is anything else."""
    found = numbers(text, "exact")
    return found[0] if found else None


def numbers(text: str, rule: Rule) -> list[Decimal]:
    """Every number in ``text``; the only thing in it (``exact``) or at its start (``prefix``), if the rule says so."""
    text = text.strip()
    found = list(NUMERAL.finditer(text))
    if rule not in ("contains", "substring"):
        found = [match for match in found[:1] if match.start() == 0]
    if rule == "exact":
        found = [match for match in found if text[match.end() :] in ("", ".")]
    values = (_value(match.group()) for match in found if _alone(text, match))
    return [value for value in values if value is not None]


def joined(text: str) -> str:
    """``text`` with every number as one word, so that a name with a number in it is not found inside another number."""
    return NUMERAL.sub(_as_word, text)


def _as_word(match: re.Match[str]) -> str:
    sign = "m" if match.group().startswith("-") else ""
    digits = THOUSANDS.sub("", match.group().lstrip("+-")).replace(",", "c").replace(".", "p")
    return sign + re.sub("[ -]+", "x", digits)


def _alone(text: str, match: re.Match[str]) -> bool:
    """Whether no letter or digit stands beside it."""
    before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
    return not re.match(r"[\w.]", before) and not re.match(r"\w", after)


def _value(text: str) -> Decimal | None:
    """What it is; None for a numeral that is not read ("twenty-one", "3,5")."""
    text = text.lower()
    if text not in WORDS and not DIGITS.match(text):
        return None
    value = Decimal(WORDS.index(text)) if text in WORDS else Decimal(text.replace(",", ""))
    return value.to_integral_value() if value == value.to_integral_value() else value.normalize()
