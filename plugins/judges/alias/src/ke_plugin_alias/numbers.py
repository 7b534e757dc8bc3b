"""Numbers in answers: digits with or without thousands separators, or English words ("twenty-one").

A number is read as a whole: 21 matches neither "1,021" nor "21 million", and 1 does not match "twenty-one".
"""

from __future__ import annotations

import re
from decimal import Decimal

from ke_plugin_alias import Rule

SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("hundred", "thousand", "million", "billion", "trillion")
VALUES = {word: at for at, word in enumerate(SMALL)} | {word: 10 * at for at, word in enumerate(TENS, start=2)}
POWERS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
WORD, SCALE = (rf"\b(?:{'|'.join(some)})\b" for some in ((*VALUES, *SCALES), SCALES))
AND = rf"(?:{'|'.join(f'(?<={scale})' for scale in SCALES)}) +and +"  # "three and five" are two numbers
IN_DIGITS = r"(?:(?<!\w)[+-])?(?:(?<![\w.])\.)?\d+(?:[.,]\d+)*"
NUMERAL = re.compile(rf"{IN_DIGITS}(?:(?: +|-){SCALE})*|{WORD}(?:(?: +|-|{AND}){WORD})*", re.IGNORECASE)
DIGITS = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?\Z")
THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


def number(text: str) -> Decimal | None:
    """Return the number that ``text`` is, in its shortest form (3.0 is 3), or an empty text."""
    found = numbers(text, "exact")
    return found[0] if found else None


def numbers(text: str, rule: Rule) -> list[Decimal]:
    """Return every number in ``text``: the whole text (``exact``), at its start (``prefix``), or anywhere."""
    text = text.strip()
    found = list(NUMERAL.finditer(text))
    if rule not in ("contains", "substring"):
        found = [match for match in found[:1] if match.start() == 0]
    if rule == "exact":
        found = [match for match in found if text[match.end() :] in ("", ".", "\u3002")]
    values = (_value(match.group()) for match in found if _is_separate(text, match))
    return [value for value in values if value is not None]


def joined(text: str) -> str:
    """Return ``text`` with every number as one word, so that names with a number do not match inside other numbers."""
    return NUMERAL.sub(_as_word, text)


def digits_joined(text: str) -> str:
    """Return ``text`` with every number in digits as one word, without thousands separators."""
    return re.sub(IN_DIGITS, _as_word, text)


def _as_word(match: re.Match[str]) -> str:
    sign = "m" if match.group().startswith("-") else ""
    digits = THOUSANDS.sub("", match.group().lstrip("+-")).replace(",", "c").replace(".", "p")
    return sign + re.sub("[ -]+", "x", digits)


def _is_separate(text: str, match: re.Match[str]) -> bool:
    """Return whether no letter or digit is next to it."""
    before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
    return not re.match(r"[\w.]", before) and not re.match(r"\w", after)


def _value(text: str) -> Decimal | None:
    """Return the value; None for an unsupported numeral ("3,5", "21 million")."""
    if not DIGITS.match(text):
        return _word_value(text.lower())
    value = Decimal(text.replace(",", ""))
    return value.to_integral_value() if value == value.to_integral_value() else value.normalize()


def _word_value(text: str) -> Decimal | None:
    """Return the value of a number in words; None if the words are not a number, such as "one two"."""
    whole = part = 0
    below, power = 1000, 10**15  # the next value must be smaller
    for word in re.split(r" +and +|[ -]+", text):
        value = VALUES.get(word, 0)
        if word in VALUES and value < below and (value or text == word):
            part += value
            below = 10 if word in TENS else 0
        elif word == "hundred" and 0 < part < 10:
            part, below = 100 * part, 100
        elif part and POWERS.get(word, power) < power:
            power = POWERS[word]
            whole, part, below = whole + part * power, 0, 1000
        else:
            return None
    return Decimal(whole + part)
