"""Group 1: exchange the subjects of the facts of two choices (step 3 of section 3.2)."""

from __future__ import annotations

import re

from attrs import evolve

from ke_plugin_recoe.records import Group, plain


def swapped(first: Group, second: Group, one: str, other: str) -> tuple[Group, Group]:
    """Return the new facts of choice 1 (called ``one``), then of choice 2 (``other``), after exchanging their facts.

    Raises ValueError for ambiguous exchanges: both have one subject, a name is part of the other, or a fact does not
    name its subject.
    """
    names = plain(one), plain(other)
    if names[0] in names[1] or names[1] in names[0]:
        raise ValueError("the two choices share a subject")
    for name, group in ((one, first), (other, second)):
        if not group or not all(_named(name).search(fact.fact) for fact in group):
            raise ValueError(f"a fact does not name its subject {name!r}")
    return _exchanged(second, one, other), _exchanged(first, one, other)


def _exchanged(group: Group, one: str, other: str) -> Group:
    """Replace both names at once, so that a fact about both remains one about both."""
    either = re.compile(f"{_named(one).pattern}|{_named(other).pattern}")

    def turn(text: str) -> str:
        return either.sub(lambda found: other if found.group() == one else one, text)

    return tuple(
        evolve(
            fact,
            fact=turn(fact.fact),
            links=(),
            atomic_facts=tuple(map(turn, fact.atomic_facts)),
            atomic_triples=tuple(map(turn, fact.atomic_triples)),
        )
        for fact in group
    )


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
