"""When a text is no language. Each rule is meant to miss some, and to accuse hardly ever.

======= =============================================================================================================
rule    a text breaks it if
======= =============================================================================================================
loops   one piece of it, of up to 60 characters, follows itself three times or more, and that is half of the text or
        more; or of its word trigrams, 12 or more, over half have stood before
scripts one word mixes letters of two scripts, or the text has letters of three (Chinese and Japanese ones are one)
symbols it has a replacement character (broken bytes), or of 8 characters or more under half are letters or digits
======= =============================================================================================================
"""

from __future__ import annotations

import re
import unicodedata

PIECE, TIMES, SHARE = 60, 4, 0.5
LOOP = re.compile(rf"(.{{1,{PIECE}}}?)\1{{{TIMES - 1},}}", re.DOTALL)
TRIGRAMS = 12
FEW_SYMBOLS = 8
FEW_LOOPS = 8  # characters: "1000000" and "Ha ha" are no loops
LONG = 2_000  # characters that are looked at: a loop is seen long before
SCRIPTS = 2
EAST_ASIAN = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "HANGUL": "HANGUL"}
SHARED = {"MODIFIER", "FULLWIDTH", "MASCULINE", "FEMININE", "MICRO", "SUPERSCRIPT", "MATHEMATICAL", "DOUBLE-STRUCK"}
"""First words of names of letters that belong to no script."""
REPLACEMENT = "\ufffd"


def loops(text: str) -> bool:
    """Whether it goes round in circles."""
    said = " ".join(text[:LONG].casefold().split())
    if any(
        len(found[0]) >= max(FEW_LOOPS, SHARE * len(said)) for found in LOOP.finditer(f"{said} ") if found[1].strip()
    ):
        return True
    words = said.split()
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    return len(trigrams) >= TRIGRAMS and len(set(trigrams)) < (1 - SHARE) * len(trigrams)


def scripts(text: str) -> bool:
    """Whether writing systems are mixed."""
    words = [found for word in re.findall(r"[^\W\d_]+", text) if (found := {*map(_script, word)} - {""})]
    return any(len(found) >= SCRIPTS for found in words) or len(set().union(*words)) > SCRIPTS


def symbols(text: str) -> bool:
    """Whether it is made of signs rather than of letters."""
    signs = "".join(text.split())
    letters = sum(letter.isalnum() or unicodedata.category(letter).startswith("M") for letter in signs)
    return REPLACEMENT in text or (len(signs) >= FEW_SYMBOLS and letters < SHARE * len(signs))


def _script(letter: str) -> str:
    """The writing system of a letter, as its Unicode name begins; empty where it belongs to all or none."""
    name = unicodedata.name(letter, "").split(" ")[0]
    return "" if name in SHARED else EAST_ASIAN.get(name, name)
