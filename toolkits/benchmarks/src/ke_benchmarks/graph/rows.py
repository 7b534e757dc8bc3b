"""Facts before they enter a store: one row per statement, from any file or endpoint."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from typing import NamedTuple

from ke_benchmarks.graph.base import LITERALS

LABEL, ALIAS, KIND = "ke:label", "ke:alias", "ke:kind"
"""Relations for labels, aliases and types; all others are facts."""

ENGLISH = re.compile(r"en(-.*)?\Z", re.IGNORECASE)
WIKIDATA = re.compile(r"https?://www\.wikidata\.org/(?:entity|prop/direct|wiki)/([QPL]\d+)\Z")
XSD = "http://www.w3.org/2001/XMLSchema#"
NUMBERS = frozenset(
    f"{XSD}{name}"
    for name in (
        "integer", "decimal", "double", "float", "int", "long", "short", "byte", "nonNegativeInteger",
        "positiveInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte",
    )
)  # fmt: skip
DATES = frozenset(f"{XSD}{name}" for name in ("date", "dateTime", "gYear", "gYearMonth"))
MEANINGS = {
    "http://www.w3.org/2000/01/rdf-schema#label": LABEL,
    "http://www.w3.org/2004/02/skos/core#prefLabel": LABEL,
    "http://schema.org/name": LABEL,
    "http://www.w3.org/2004/02/skos/core#altLabel": ALIAS,
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type": KIND,
    "P31": KIND,
    "label": LABEL, "rdfs:label": LABEL, "alias": ALIAS, "skos:altLabel": ALIAS,
    "kind": KIND, "rdf:type": KIND, "instance of": KIND,
}  # fmt: skip
"""Meaning of the relations in a file that are not facts."""


class GraphRow(NamedTuple):
    """``subject`` and ``relation`` are keys. ``object``: a key, a literal's key, or a text if the relation is ``LABEL``
    or ``ALIAS``, in the language ``language`` (empty if unknown).
    """

    subject: str
    relation: str
    object: str
    language: str = ""


class SkippedRows(Counter[str]):
    """Counts of skipped rows, by reason."""


def shortened(iri: str) -> str:
    """Return the key of an IRI: the id for Wikidata (Q90, P36), otherwise the whole IRI."""
    found = WIKIDATA.match(iri)
    return found[1] if found else iri


def literal_key(value: str, datatype: str = "") -> str | None:
    """Return the key of a literal, ``number:``, ``date:`` or ``text:``; None if it is blank or invalid for its type."""
    value = value.strip()
    if datatype in NUMBERS:
        try:
            number = float(value)
        except ValueError:
            return None
        if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124  NaN
            return None
        return f"number:{int(number) if number.is_integer() and abs(number) < 2**53 else number}"
    if datatype in DATES:
        return f"date:{value.partition('T')[0]}" if value else None
    return f"text:{value}" if value else None


def checked_literal(key: str) -> str:
    """Return ``key`` if it is not a literal, or a valid one. Raises a short ValueError."""
    kind, colon, value = key.partition(":")
    if not colon or kind not in LITERALS:
        return key
    if kind == "number" and literal_key(value, f"{XSD}double") is None:
        raise ValueError(f"{value!r} is not a number")
    if kind == "date":
        _check_date(value)
    if not value.strip():
        raise ValueError(f"nothing after {kind}:")
    return key


def _check_date(value: str) -> None:
    if re.fullmatch(r"-?\d{1,6}(-\d\d)?", value):
        return
    try:
        date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a date") from None
