"""Attrs validators for the records of a file. They raise a short ValueError; the reader adds the location."""

from __future__ import annotations

import re

from attrs import Attribute

BARE_ID = re.compile(r"[QP][1-9]\d{3,}\Z")
"""Placeholders of Wikidata's services for a missing label. Some entities are really called "Q1" or "Q400"."""


def not_blank(_instance: object, attribute: Attribute[str], value: str) -> None:
    """Reject blank text."""
    if not value.strip():
        raise ValueError(f"{attribute.name} is blank")


def all_not_blank(_instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Reject a list with blank texts."""
    if not all(text.strip() for text in value):
        raise ValueError(f"one of {attribute.name} is blank")


def some_not_blank(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Reject an empty list or blank texts."""
    if not value:
        raise ValueError(f"{attribute.name} is empty")
    all_not_blank(instance, attribute, value)


def has_label(instance: object, attribute: Attribute[str], value: str) -> None:
    """Reject blank text and a bare id in place of a label, which makes a meaningless question."""
    not_blank(instance, attribute, value)
    _not_bare(attribute.name, value)


def all_have_labels(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Reject a list with blank texts or bare ids."""
    all_not_blank(instance, attribute, value)
    for text in value:
        _not_bare(attribute.name, text)


def _not_bare(name: str, value: str) -> None:
    if BARE_ID.match(value.strip()):
        raise ValueError(f"{name} is {value.strip()}: no label, only its Wikidata id")
