"""Where a name ends that a model wrote at the end of a sentence."""

from __future__ import annotations

SHORTENED = ("Jr.", "Sr.", "Inc.", "Co.", "Corp.", "Ltd.", "Bros.")
"""Ends of names that are written with a period of their own."""


def without_period(text: str) -> str:
    """``text`` without the period that closes its sentence.

    One that belongs to the name stays (M2): after an initial, in "F.C." and "S.p.A.", in "Jr." and "Inc.".
    """
    name = text.strip()
    last = name.split()[-1] if name else ""
    own = (len(last) == 2 and last[0].isalpha()) or "." in last[:-1] or last in SHORTENED
    if last.endswith("..") or (last.endswith(".") and not own):
        return name[:-1].rstrip()
    return name
