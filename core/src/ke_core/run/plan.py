"""Who is edited together, and who is asked: one of two plans, the same in every process.

Everything that is drawn is drawn by a hash of the seed, the purpose and the case's id. So the draw depends
neither on Python's version nor on its hash seed, and a smaller sample is part of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from attrs import frozen

from ke_core.data.queries import Case
from ke_core.data.runspec import Plan
from ke_core.errors import BadConfig

Split = Callable[[int, int], Mapping[str, str] | None]
"""``Dataset.split``: (k, seed) to case id and part, or None."""


@frozen(kw_only=True)
class Group:
    """Cases whose edits are made together. All tuples are in file order.

    ``edited`` and ``controls`` do not overlap; ``asked`` are the ids of those that are asked.
    """

    id: str
    edited: tuple[Case, ...]
    controls: tuple[Case, ...]
    asked: frozenset[str]

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that are asked, edited ones first."""
        return tuple(case for case in (*self.edited, *self.controls) if case.id in self.asked)

    def edits(self, case: Case) -> bool:
        """Whether ``case`` is one of those edited."""
        return case.id in self._edited

    @cached_property
    def _edited(self) -> frozenset[str]:
        return frozenset(case.id for case in self.edited)


@frozen(kw_only=True)
class Stage:
    """A step of sequential editing: ``group``'s edits come on top of what is there, then ``asked`` is asked.

    In ``asked``, edited cases are those of all steps so far, controls those of later ones; nobody may be asked.
    """

    step: int
    group: Group
    asked: Group


def select(cases: Sequence[Case], plan: Plan, seed: int) -> tuple[Case, ...]:
    """The ``limit`` cases of this run: drawn with the seed, kept in file order."""
    return _draw(cases, plan.limit, seed, "limit")


def groups(cases: Sequence[Case], plan: Plan, seed: int, split: Split) -> list[Group]:
    """The groups of the selected cases. Raises BadConfig where the plan does not fit them."""
    if not cases:
        raise BadConfig("there is no case to run")
    asked = frozenset(case.id for case in _draw(cases, plan.ask, seed, "ask"))
    if plan.protocol == "sample":
        return [_sample(cases, plan, seed, split, asked)]
    made = []
    for number, members in enumerate(_partition(cases, plan.size, seed), start=1):
        if plan.sequential or asked.intersection(case.id for case in members):
            made.append(Group(id=f"batch-{number}", edited=members, controls=(), asked=asked))
    return made


def stages(made: Sequence[Group], plan: Plan) -> list[Stage]:
    """The steps of a sequential plan over ``made``, and who is asked after each (``Plan.evaluate``, ``Plan.of``)."""
    every = [case for group in made for case in group.edited]
    chosen = frozenset[str]().union(*(group.asked for group in made))
    found: list[Stage] = []
    seen: list[Case] = []
    new: list[Case] = []
    for step, group in enumerate(made, start=1):
        seen += group.edited
        new += group.edited
        asked: frozenset[str] = frozenset()
        if step == len(made) or (plan.evaluate and step % plan.evaluate == 0):
            asked = chosen.intersection(case.id for case in {"new": new, "seen": seen, "all": every}[plan.of])
            new = []
        whole = Group(id=f"step-{step}", edited=tuple(seen), controls=tuple(every[len(seen) :]), asked=asked)
        found.append(Stage(step=step, group=group, asked=whole))
    return found


def _partition(cases: Sequence[Case], size: int | None, seed: int) -> list[tuple[Case, ...]]:
    """Groups of ``size`` at random (MQuAKE, section 4.2: "randomly split"), in file order within each.

    The paper does not say what happens to the rest of a division; here it forms a short last group. Groups
    of one are nothing to be drawn: they stay in file order.
    """
    if size is None or size >= len(cases):
        return [tuple(cases)]
    order = list(range(len(cases))) if size == 1 else _shuffled(cases, seed, "partition")
    return [tuple(cases[i] for i in sorted(order[start : start + size])) for start in range(0, len(cases), size)]


def _sample(cases: Sequence[Case], plan: Plan, seed: int, split: Split, asked: frozenset[str]) -> Group:
    """``size`` cases edited, the rest controls; the dataset's own split, where it has one, says which."""
    size = len(cases) if plan.size is None else plan.size
    if size > len(cases):
        raise BadConfig(f"{size} cases cannot be edited: there are {len(cases)}", hint="take a smaller --edited")
    parts = split(size, seed)
    if parts is None:
        edited = _draw(cases, size, seed, "edited")
    else:
        edited = tuple(case for case in cases if parts.get(case.id) == "edited")
        cases = tuple(case for case in cases if case.id in parts)
    if not edited:
        raise BadConfig("the dataset's split edits none of the selected cases", hint="take a larger --limit, or none")
    chosen = {case.id for case in edited}
    controls = tuple(case for case in cases if case.id not in chosen)
    return Group(id="sample", edited=edited, controls=controls, asked=asked)


def _draw(cases: Sequence[Case], n: int | None, seed: int, purpose: str) -> tuple[Case, ...]:
    if n is None or n >= len(cases):
        return tuple(cases)
    return tuple(cases[i] for i in sorted(_shuffled(cases, seed, purpose)[:n]))


def _shuffled(cases: Sequence[Case], seed: int, purpose: str) -> list[int]:
    """Positions of ``cases`` in random order."""
    keys = [hashlib.sha256(f"{seed}/{purpose}/{case.id}".encode()).digest() for case in cases]
    return sorted(range(len(cases)), key=lambda i: keys[i])
