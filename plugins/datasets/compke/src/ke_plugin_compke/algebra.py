"""CompKE's reasoning links (section 3.1 of the paper) as a small algebra over sets of things, evaluated step by step.

============ ========================================================================================
step         result
============ ========================================================================================
map          everything that something in the set is related to: the union of A_r(s) over s in S
filter       what of the set is related to the value: { s in S : (s, r, v) in D }
filter_not   what of the set is not: the complement of ``filter`` within the set
intersect    what is in every one of the sets
union        what is in any of them
============ ========================================================================================

Sets are tuples of keys without repetition, in order of first mention, so that nothing depends on hashing. What is true
is a function of subject and relation: the graph, or the graph with edits laid over it.
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
"""Subject and relation to objects, all by key; nothing where there is no such fact."""
Place = tuple[str, str]
"""Subject and relation, by key."""


@frozen(kw_only=True)
class SetStep:
    """One step. An input is the number of an earlier step (from 1 on) or the key of a thing.

    ``relation`` stands where the step maps or filters, ``value`` (a key) where it filters. Raises ValueError for a
    step that has not what it needs.
    """

    op: Op = field(validator=validators.in_(OPS))
    inputs: tuple[int | str, ...] = field(validator=validators.min_len(1))
    relation: str = ""
    value: str = ""

    def __attrs_post_init__(self) -> None:
        """A set alone is its own intersection, which would be no step."""
        wanted = "two inputs or more" if self.op in LOGICAL else "one input"
        if (len(self.inputs) > 1) != (self.op in LOGICAL):
            raise ValueError(f"{self.op} takes {wanted}")
        if (self.op not in LOGICAL) != bool(self.relation):
            raise ValueError(f"{self.op} takes {'no' if self.relation else 'a'} relation")
        if self.op.startswith("filter") != bool(self.value):
            raise ValueError(f"{self.op} takes {'no' if self.value else 'a'} value")


def evaluate(steps: Sequence[SetStep], world: World) -> tuple[Keys, ...]:
    """The set after each step. Raises ValueError for an input that no earlier step makes."""
    made: list[Keys] = []
    for number, step in enumerate(steps, start=1):
        made.append(_result(step, [_input(given, made, number) for given in step.inputs], world))
    return tuple(made)


def places(steps: Sequence[SetStep], made: Sequence[Keys]) -> tuple[Place, ...]:
    """The facts that the steps look at, by subject and relation, each once, in order; ``made``: their results."""
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
        raise ValueError(f"step {number} takes the result of step {given}, which does not come before it")
    return made[given - 1]


def distinct(keys: Iterable[str]) -> Keys:
    """Each key once, in order of first mention."""
    return tuple(dict.fromkeys(keys))
