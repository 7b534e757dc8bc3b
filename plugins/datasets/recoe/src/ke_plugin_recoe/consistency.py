"""Step 6 of the construction: of datapoints whose counterfactuals contradict one another, one random survivor each."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ke_plugin_recoe.records import RecoeRecord, plain

Place = tuple[str, str]
World = dict[Place, frozenset[str]]


def consistent(records: Sequence[RecoeRecord], seed: int) -> list[RecoeRecord]:
    """Those that are kept, in their order. Schemes do not see one another.

    Two records contradict each other where they give one subject and relation different objects, be it by an edit or by
    a fact that stays. A record whose own edits are like that (several objects) is compared by all of them together.
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
    """What is true once the record's edits are made: subject and relation to objects."""
    found: dict[Place, set[str]] = {}
    for fact in (*record.counterfactuals(), *record.unchanged()):
        for atom in fact.atoms():
            found.setdefault(atom.triple.place, set()).add(plain(atom.triple.object))
    return {place: frozenset(objects) for place, objects in found.items()}
