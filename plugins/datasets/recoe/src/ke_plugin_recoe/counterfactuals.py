"""Steps 3 and 6 of the construction (section 3.2): exchange facts, and remove contradicting records."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from attrs import evolve

from ke_plugin_recoe.records import Group, RecoeRecord, plain

Place = tuple[str, str]
World = dict[Place, frozenset[str]]


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


def consistent(records: Sequence[RecoeRecord], seed: int) -> list[RecoeRecord]:
    """Return the records to keep, in order. Each scheme is processed separately.

    Two records contradict each other if they give one subject and relation different objects, by an edit or by an
    unchanged fact. If a record's own edits give several objects, all of them are compared together.
    """
    order = list(range(len(records)))
    random.Random(seed).shuffle(order)  # noqa: S311  a choice, not a secret
    held: dict[str | None, World] = {}
    kept = []
    for at in order:
        world, own = held.setdefault(records[at].scheme, {}), world_of(records[at])
        if all(world.get(place, objects) == objects for place, objects in own.items()):
            world.update(own)
            kept.append(at)
    return [records[at] for at in sorted(kept)]


def world_of(record: RecoeRecord) -> World:
    """Return the facts after the record's edits: subject and relation to objects."""
    found: dict[Place, set[str]] = {}
    for fact in (*record.counterfactuals(), *record.unchanged()):
        for atom in fact.atoms():
            found.setdefault(atom.triple.place, set()).add(plain(atom.triple.object))
    return {place: frozenset(objects) for place, objects in found.items()}
