"""CompKE's reasoning links (section 3.1 of the paper) as operations on sets of entities, evaluated step by step.

============ ========================================================================================
step         result
============ ========================================================================================
map          all entities related to a member of the set: the union of A_r(s) over s in S
filter       the members related to the value: { s in S : (s, r, v) in D }
filter_not   the members not related to the value: the complement of ``filter`` within the set
intersect    the entities in all of the sets
union        the entities in any of the sets
============ ========================================================================================

Sets are tuples of distinct keys in order of first mention, so nothing depends on hashing. Facts are a function of
subject and relation: the graph, or the graph with edits applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from attrs import field, frozen, validators

Op = Literal["map", "filter", "filter_not", "intersect", "union"]
OPS: tuple[Op, ...] = ("map", "filter", "filter_not", "intersect", "union")
LOGICAL: tuple[Op, ...] = ("intersect", "union")
Keys = tuple[str, ...]
World = Callable[[str, str], Sequence[str]]
"""Subject and relation to objects, all by key; empty if there is no such fact."""
Place = tuple[str, str]
"""Subject and relation, by key."""


@frozen(kw_only=True)
class SetStep:
    """One step. An input is the number of an earlier step (from 1) or the key of an entity.

    ``relation`` is for map and filter steps, ``value`` (a key) for filter steps. Raises ValueError if a required field
    is missing.
    """

    op: Op = field(validator=validators.in_(OPS))
    inputs: tuple[int | str, ...] = field(validator=validators.min_len(1))
    relation: str = ""
    value: str = ""

    def __attrs_post_init__(self) -> None:
        """Validate the number of inputs: intersecting or joining a single set would do nothing."""
        wanted = "two or more inputs" if self.op in LOGICAL else "one input"
        if (len(self.inputs) > 1) != (self.op in LOGICAL):
            raise ValueError(f"{self.op} needs {wanted}")
        if (self.op not in LOGICAL) != bool(self.relation):
            raise ValueError(f"{self.op} needs {'no' if self.relation else 'a'} relation")
        if self.op.startswith("filter") != bool(self.value):
            raise ValueError(f"{self.op} needs {'no' if self.value else 'a'} value")


def evaluate(steps: Sequence[SetStep], world: World) -> tuple[Keys, ...]:
    """Return the set after each step. Raises ValueError for an input that is not the result of an earlier step."""
    made: list[Keys] = []
    for number, step in enumerate(steps, start=1):
        made.append(_result(step, [_input(given, made, number) for given in step.inputs], world))
    return tuple(made)


def places(steps: Sequence[SetStep], made: Sequence[Keys]) -> tuple[Place, ...]:
    """Return the facts that the steps use, by subject and relation, each once, in order. ``made``: results of the
    steps.
    """
    found: dict[Place, None] = {}
    for number, step in enumerate(steps, start=1):
        for given in step.inputs if step.relation else ():
            found.update(dict.fromkeys((key, step.relation) for key in _input(given, made[: number - 1], number)))
    return tuple(found)


def _result(step: SetStep, sets: Sequence[Keys], world: World) -> Keys:
    first = sets[0]
    match step.op:
        case "map":
            return distinct(found for key in first for found in world(key, step.relation))
        case "filter" | "filter_not":
            wanted = step.op == "filter"
            return tuple(key for key in first if (step.value in world(key, step.relation)) == wanted)
        case "intersect":
            return tuple(key for key in first if all(key in other for other in sets[1:]))
        case "union":
            return distinct(key for keys in sets for key in keys)


def _input(given: int | str, made: Sequence[Keys], number: int) -> Keys:
    if isinstance(given, str):
        return (given,)
    if not 1 <= given <= len(made):
        raise ValueError(f"step {number} uses the result of step {given}, which does not come before it")
    return made[given - 1]


def distinct(keys: Iterable[str]) -> Keys:
    """Return each key once, in order of first mention."""
    return tuple(dict.fromkeys(keys))
