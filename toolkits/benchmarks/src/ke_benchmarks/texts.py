"""Fluency and sentences of a text, and the thoughts before an answer with their labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ke_core.plugin import Answer, words

NGRAM_WEIGHTS = {2: 1 / 3, 3: 2 / 3}
"""Weights of bigrams and trigrams. ROME's released evaluation uses 2/3 and 4/3 and halves the sum."""


def ngram_entropy(text: str) -> float | None:
    """Return the weighted entropy of bigrams and trigrams (fluency), in bits; None for fewer than three words.

    Repetitive text has a low entropy.
    """
    said = words(text)
    if len(said) < max(NGRAM_WEIGHTS):
        return None
    return math.fsum(weight * _entropy(said, n) for n, weight in NGRAM_WEIGHTS.items())


def ngram_counts(said: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """Return how often each sequence of ``n`` words occurs."""
    return Counter(zip(*(said[start:] for start in range(n)), strict=False))


def _entropy(said: Sequence[str], n: int) -> float:
    counts = ngram_counts(said, n)
    total = counts.total()
    return -math.fsum(count / total * math.log2(count / total) for count in counts.values())


CONSISTENT, INCONSISTENT, UNRELATED, FACT_UNSURE = "consistent", "inconsistent", "unrelated", "fact-unsure"
SUPPORT, NOT_SUPPORT, SUPPORT_UNSURE = "support", "not-support", "support-unsure"
NO_THOUGHTS = "no-thoughts"
FACT_LABELS = (CONSISTENT, INCONSISTENT, UNRELATED, FACT_UNSURE)
SUPPORT_LABELS = (SUPPORT, NOT_SUPPORT, SUPPORT_UNSURE)
NAMED = re.compile(r"^\W*(?:thoughts?|reasoning)\s*:\s*", re.IGNORECASE)
LEADS_TO = re.compile(
    r"(?:^|(?<=[.\s]))(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*:?[\s*\"']*\Z",
    re.IGNORECASE,
)
NOT_ENDS = r"(?<!^[A-Z]\.)(?<!\s[A-Z]\.)(?<!\b(?:Dr|Mr|Ms|St|Jr|Sr|No|vs)\.)(?<!\bMrs\.)(?<!\bProf\.)"  # "J. Smith"
ENDS = re.compile(rf"(?<=[.!?]){NOT_ENDS}\s+(?=[\"'(\[]?[A-Z0-9])|\n+")


def thoughts_of(answer: Answer) -> str:
    """Return the text before the answer, without words such as "so the answer is". Empty if there is none.

    For a truncated answer, return everything that was generated.
    """
    raw = answer.raw.strip()
    if answer.outcome == "answered" and answer.text:
        raw = raw[: _start(raw, answer.text)]
    return NAMED.sub("", LEADS_TO.sub("", raw.rstrip())).strip()


def _start(raw: str, text: str) -> int:
    """Return the position of the answer: its last occurrence after words that lead to it, or its last occurrence."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", raw)][::-1]
    return next((at for at in places if LEADS_TO.search(raw, 0, at)), max(places, default=0))


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text, each once, in order.

    A period within a word or a number, or after an initial or a title, does not end one.
    """
    return tuple(dict.fromkeys(part.strip() for part in ENDS.split(text) if part.strip()))


def paragraph(parts: Iterable[str]) -> str:
    """Return the sentences as one text. Those without a final mark get a period."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)
