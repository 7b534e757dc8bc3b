"""Step 6 of the construction: of records with contradicting counterfactuals, keep a random one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ke_plugin_recoe.records import RecoeRecord, plain

Place = tuple[str, str]
World = dict[Place, frozenset[str]]


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
