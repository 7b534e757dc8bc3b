"""What a model thought before it answered: where that stands in a reply, and what judges say of it.

============ ======================================= ===========================
label        of                                      it means
============ ======================================= ===========================
consistent   a fact, against those of the case       they say so too
inconsistent the same                                they say otherwise
unrelated    the same                                they say nothing of the kind
support      thoughts and answer                     the thoughts lead to it
not-support  the same                                they do not
============ ======================================= ===========================

``fact-unsure`` and ``support-unsure``: the judge was asked and gave no label of the set. ``no-thoughts``: there is
nothing to judge. (Hua et al. 2024, ReCoE, section 5.)
"""

from __future__ import annotations

import re

from ke_core.data.results import Answer

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
ENDS = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9])|\n+")


def thoughts_of(answer: Answer) -> str:
    """What was written before the answer, without the words that only lead to it; empty where nothing was.

    Of an answer that did not come to its end, everything that was written.
    """
    raw = answer.raw.strip()
    if answer.outcome == "answered" and answer.text:
        raw = raw[: _start(raw, answer.text)]
    return NAMED.sub("", LEADS_TO.sub("", raw.rstrip())).strip()


def _start(raw: str, text: str) -> int:
    """Where the answer stands: last where words lead to it, since more may be said of it after that; else last."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", raw)][::-1]
    return next((at for at in places if LEADS_TO.search(raw, 0, at)), max(places, default=0))


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, each once, in order. A full stop within a word or a number ends none."""
    return tuple(dict.fromkeys(part.strip() for part in ENDS.split(text) if part.strip()))


__all__ = [
    "CONSISTENT", "FACT_LABELS", "FACT_UNSURE", "INCONSISTENT", "NOT_SUPPORT", "NO_THOUGHTS", "SUPPORT",
    "SUPPORT_LABELS", "SUPPORT_UNSURE", "UNRELATED", "sentences", "thoughts_of",
]  # fmt: skip
