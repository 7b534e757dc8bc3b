"""Plan a run: which cases are edited together, and which cases are asked. Every process has the same plan.

Cases are sampled by a hash of the seed, the purpose and the case's id. The sample depends neither on Python's version
nor on its hash seed, and a smaller sample is part of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Self

from attrs import frozen

from ke_core.runner.world import World
from ke_core.spec.errors import BadConfig
from ke_core.spec.queries import Case
from ke_core.spec.runspec import Plan

Split = Callable[[int, int], Mapping[str, str] | None]
"""``Dataset.split``: (k, seed) to case id and part, or None."""


@frozen(kw_only=True)
class Members:
    """Cases in a fixed order. The stages of a run share them."""

    cases: tuple[Case, ...]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Map case ids to places in the order."""
        return {case.id: place for place, case in enumerate(self.cases)}


@frozen(kw_only=True)
class Group:
    """Cases whose edits are applied together: the first ``size`` of ``members``. The others are controls.

    ``asked`` holds the ids of the cases that are asked, and may hold ids of other groups. Edited cases and controls are
    in file order.
    """

    id: str
    members: Members
    size: int
    asked: frozenset[str]

    @classmethod
    def of(cls, name: str, edited: Sequence[Case], controls: Sequence[Case], asked: frozenset[str]) -> Self:
        """Create a group from edited cases and controls, which do not overlap."""
        return cls(id=name, members=Members(cases=(*edited, *controls)), size=len(edited), asked=asked)

    @property
    def edited(self) -> tuple[Case, ...]:
        """The cases whose edits are applied."""
        return self.members.cases[: self.size]

    @property
    def controls(self) -> tuple[Case, ...]:
        """The cases whose edits are not applied."""
        return self.members.cases[self.size :]

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that are asked, edited ones first."""
        members = self.members
        if len(self.asked) >= len(members.cases):
            return tuple(case for case in members.cases if case.id in self.asked)
        places = sorted(members.place[case] for case in self.asked if case in members.place)
        return tuple(members.cases[place] for place in places)

    def edits(self, case: Case) -> bool:
        """Return whether the edits of ``case`` are applied."""
        return self.members.place.get(case.id, self.size) < self.size


@frozen(kw_only=True)
class Stage:
    """A step of sequential editing: the edits of ``group`` are applied, then ``asked`` is asked.

    The edited cases of ``asked`` are those of all steps so far, its controls those of later steps. It may be empty.
    """

    step: int
    group: Group
    asked: Group


def select(cases: Sequence[Case], plan: Plan, seed: int) -> tuple[Case, ...]:
    """Sample the ``limit`` cases of this run with the seed, in file order."""
    return _draw(cases, plan.limit, seed, "limit")


def groups(cases: Sequence[Case], plan: Plan, seed: int, split: Split) -> list[Group]:
    """Return the groups of the selected cases. Raises BadConfig if the plan does not fit them."""
    if not cases:
        raise BadConfig("there is no case to run")
    if plan.protocol == "sample":
        return [_sample(cases, plan, seed, split)]
    asked = _asked(cases, plan, seed)
    made = []
    for number, members in enumerate(_partition(cases, plan.size, seed), start=1):
        if plan.sequential or asked.intersection(case.id for case in members):
            made.append(Group.of(f"batch-{number}", members, (), asked))
    return made


def stages(made: Sequence[Group], plan: Plan) -> list[Stage]:
    """Return the steps of a sequential plan over ``made``, with the cases that are asked after each step."""
    every = Members(cases=tuple(case for group in made for case in group.edited))
    chosen = frozenset[str]().union(*{group.asked for group in made})  # usually the same set in all groups
    found: list[Stage] = []
    seen = old = 0  # edited cases now, and when cases were asked the last time
    for step, group in enumerate(made, start=1):
        seen += group.size
        asked: frozenset[str] = frozenset()
        if step == len(made) or (plan.eval_every and step % plan.eval_every == 0):
            start, end = {"new": (old, seen), "seen": (0, seen), "all": (0, None)}[plan.eval_set]
            asked = chosen.intersection(case.id for case in every.cases[start:end])
            old = seen
        whole = Group(id=f"step-{step}", members=every, size=seen, asked=asked)
        found.append(Stage(step=step, group=group, asked=whole))
    return found


def _partition(cases: Sequence[Case], size: int | None, seed: int) -> list[tuple[Case, ...]]:
    """Split cases into random groups of ``size`` (MQuAKE, section 4.2: "randomly split"), in file order within each.

    The paper does not say what happens to the remainder; here it forms a short last group. Groups of one case stay
    in file order.
    """
    if size is None or size >= len(cases):
        return [tuple(cases)]
    order = list(range(len(cases))) if size == 1 else _shuffled(cases, seed, "partition")
    return [tuple(cases[i] for i in sorted(order[start : start + size])) for start in range(0, len(cases), size)]


def _sample(cases: Sequence[Case], plan: Plan, seed: int, split: Split) -> Group:
    """Edit ``size`` cases; the rest are controls. The dataset's own split is used if it has one."""
    size = len(cases) if plan.size is None else plan.size
    if size > len(cases):
        raise BadConfig(f"{size} cases cannot be edited: there are {len(cases)}", hint="use a smaller --num-edited")
    parts = split(size, seed)
    if parts is None:
        edited = _draw(cases, size, seed, "edited")
    else:
        edited = tuple(case for case in cases if parts.get(case.id) == "edited")
        cases = tuple(case for case in cases if case.id in parts)
    if not edited:
        raise BadConfig("the dataset's split edits none of the selected cases", hint="use a larger --limit, or none")
    chosen = {case.id for case in edited}
    controls = tuple(case for case in cases if case.id not in chosen)
    return Group.of("sample", edited, controls, _asked(cases, plan, seed))


def _asked(cases: Sequence[Case], plan: Plan, seed: int) -> frozenset[str]:
    return frozenset(case.id for case in _draw(cases, plan.eval_limit, seed, "ask"))


def _draw(cases: Sequence[Case], n: int | None, seed: int, purpose: str) -> tuple[Case, ...]:
    if n is None or n >= len(cases):
        return tuple(cases)
    return tuple(cases[i] for i in sorted(_shuffled(cases, seed, purpose)[:n]))


def _shuffled(cases: Sequence[Case], seed: int, purpose: str) -> list[int]:
    """Return the positions of ``cases`` in random order."""
    keys = [hashlib.sha256(f"{seed}/{purpose}/{case.id}".encode()).digest() for case in cases]
    return sorted(range(len(cases)), key=lambda i: keys[i])


@frozen(kw_only=True)
class Share:
    """The cases that this process asks, by group.

    ``leads``: the groups for which it sends the requests that are sent to each edited model once.
    """

    mine: Mapping[str, frozenset[str]]
    leads: frozenset[str]

    @classmethod
    def of(cls, groups: Sequence[Group], world: World, *, whole: bool = True) -> Share:
        """Return the share of one process. Not ``whole``: each group is divided among the processes."""
        if whole and len(groups) >= world.size:
            own = groups[world.rank :: world.size]
            return cls(mine={group.id: group.asked for group in own}, leads=frozenset(group.id for group in own))
        mine = {one.id: frozenset(case.id for case in one.cases[world.rank :: world.size]) for one in groups}
        return cls(mine=mine, leads=frozenset(mine) if world.leads else frozenset())

    def takes(self, group: Group) -> bool:
        """Return whether this process has work in that group."""
        return group.id in self.leads or bool(self.mine.get(group.id))

    def cases(self, group: Group) -> tuple[Case, ...]:
        """Return the cases of the group that this process asks."""
        return tuple(case for case in group.cases if case.id in self.mine.get(group.id, ()))
