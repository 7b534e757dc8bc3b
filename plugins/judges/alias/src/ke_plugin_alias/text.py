"""How a text is brought into the form in which it is compared."""

from __future__ import annotations

import re
import unicodedata

from ke_plugin_alias import Normalisation

JOINED = re.compile(r"[.'\u2019`\u00b4]")  # "U.S." is "US", "O'Brien" is "OBrien"
PUNCTUATION = re.compile(r"[^\w\s]|_")  # "Guinea-Bissau" is "Guinea Bissau"
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normal(text: str, how: Normalisation) -> str:
    """``text`` without the space around it, and without what ``how`` says not to compare."""
    text = text.strip()
    if how == "none":
        return text
    text = text.casefold()
    if how == "case":
        return text
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = " ".join(PUNCTUATION.sub(" ", JOINED.sub("", text)).split())
    # a band may be called "The The": a name that is all articles keeps them
    return " ".join(ARTICLES.sub(" ", text).split()) or text
