"""Rules for text that is not language. They prefer false negatives over false positives.

======= =============================================================================================================
rule    a text matches if
======= =============================================================================================================
loops   one piece of up to 60 characters, not only digits, is followed by itself at least three times, which covers at
        least half of the text; or, with at least 12 word trigrams, more than half of them occurred before
scripts one word mixes letters of two scripts, or the text has letters of three (Chinese and Japanese count as one)
symbols it contains a replacement character (broken bytes), or has at least 8 characters of which less than half are
        letters or digits
======= =============================================================================================================
"""

from __future__ import annotations

import re
import unicodedata

PIECE, TIMES, SHARE = 60, 4, 0.5
LOOP = re.compile(rf"(.{{1,{PIECE}}}?)\1{{{TIMES - 1},}}", re.DOTALL)
TRIGRAMS = 12
FEW_SYMBOLS = 8
FEW_LOOPS = 8  # minimum characters: "Ha ha" is no loop
LONG = 2_000  # maximum characters that are read
SCRIPTS, SYMBOLS = 2, 2
EAST_ASIAN = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "IDEOGRAPHIC": "CJK"}
SHARED = {"MODIFIER", "FULLWIDTH", "MASCULINE", "FEMININE", "MICRO", "SUPERSCRIPT", "MATHEMATICAL", "DOUBLE-STRUCK"}
"""First words of the Unicode names of letters without a script."""
UNITS = "\u03bc\u03a9"  # micro, ohm
REPLACEMENT = "\ufffd"


def loops(text: str) -> bool:
    """Return whether the text repeats itself."""
    said = " ".join(text[:LONG].casefold().split())
    if any(
        len(found[0]) >= max(FEW_LOOPS, SHARE * len(said))
        for found in LOOP.finditer(f"{said} ")
        if found[1].strip() and not found[1].isdigit()
    ):
        return True
    words = said.split()
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    return len(trigrams) >= TRIGRAMS and len(set(trigrams)) < (1 - SHARE) * len(trigrams)


def scripts(text: str) -> bool:
    """Return whether the text mixes writing systems."""
    words = [found for word in re.findall(r"[^\W\d_]+", text) if (found := _scripts(word))]
    return any(len(found) >= SCRIPTS for found in words) or len(set().union(*words)) > SCRIPTS


def _scripts(word: str) -> set[str]:
    """Return the scripts of a word's letters. One or two Greek letters are symbols, as in "TNF\u03b1" and "\u0394H"."""
    found = [*map(_script, word)]
    return {*found} - {"", *(["GREEK"] if found.count("GREEK") <= SYMBOLS else [])}


def symbols(text: str) -> bool:
    """Return whether the text consists of symbols rather than letters."""
    signs = "".join(text.split())
    letters = sum(letter.isalnum() or unicodedata.category(letter).startswith("M") for letter in signs)
    return REPLACEMENT in text or (len(signs) >= FEW_SYMBOLS and letters < SHARE * len(signs))


def _script(letter: str) -> str:
    """Return the writing system of a letter from its Unicode name; empty if it belongs to all or none.

    Numbers (the subscript of a formula), and Greek letters that are symbols of units, belong to none.
    """
    if letter in UNITS or not unicodedata.category(letter).startswith("L"):
        return ""
    name = unicodedata.name(letter, "").split(" ")[0]
    return "" if name in SHARED else EAST_ASIAN.get(name, name)
