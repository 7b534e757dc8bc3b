"""Attrs validators for the records of a file. They raise ValueError in a few words; the reader adds where."""

from __future__ import annotations

import re

from attrs import Attribute

BARE_ID = re.compile(r"[QP][1-9]\d{3,}\Z")
"""What Wikidata's services give in place of a label that is missing (X7). Things are called "Q1" and "Q400" too."""


def not_blank(_instance: object, attribute: Attribute[str], value: str) -> None:
    """There must be something to read."""
    if not value.strip():
        raise ValueError(f"{attribute.name} is blank")


def all_not_blank(_instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """None of them is blank."""
    if not all(text.strip() for text in value):
        raise ValueError(f"one of {attribute.name} is blank")


def some_not_blank(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """There is one at least, and none of them is blank."""
    if not value:
        raise ValueError(f"{attribute.name} is empty")
    all_not_blank(instance, attribute, value)


def has_label(instance: object, attribute: Attribute[str], value: str) -> None:
    """It must be something to read and not the bare id of a thing without a label, which asks nothing (X7)."""
    not_blank(instance, attribute, value)
    _not_bare(attribute.name, value)


def all_have_labels(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """None of them is blank or a bare id."""
    all_not_blank(instance, attribute, value)
    for text in value:
        _not_bare(attribute.name, text)


def _not_bare(name: str, value: str) -> None:
    if BARE_ID.match(value.strip()):
        raise ValueError(f"{name} is {value.strip()}: no label, only its Wikidata id")
