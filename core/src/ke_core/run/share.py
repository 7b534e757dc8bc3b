"""Who does what, where several processes share a run.

Where there are as many groups of cases as processes, each process takes whole groups, every so-manieth: an edit is then
made once. Else (all cases edited at once, or one batch on top of another) every process makes the edits and asks its
part of each group's cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from ke_core.data.queries import Case
from ke_core.run.plan import Group
from ke_core.runner.world import World


@frozen(kw_only=True)
class Share:
    """What this process asks: of each group, by its id, some cases.

    ``leads``: the groups whose edited model it asks what is asked of each model once.
    """

    mine: Mapping[str, frozenset[str]]
    leads: frozenset[str]

    @classmethod
    def of(cls, groups: Sequence[Group], world: World, *, whole: bool = True) -> Share:
        """The share of the process that is ``world``. Not ``whole``: groups follow from one another, and are parted."""
        if whole and len(groups) >= world.size:
            own = groups[world.rank :: world.size]
            return cls(mine={group.id: group.asked for group in own}, leads=frozenset(group.id for group in own))
        mine = {group.id: frozenset(_ids(group)[world.rank :: world.size]) for group in groups}
        return cls(mine=mine, leads=frozenset(mine) if world.leads else frozenset())

    def takes(self, group: Group) -> bool:
        """Whether anything of that group is for this process."""
        return group.id in self.leads or bool(self.mine.get(group.id))

    def cases(self, group: Group) -> tuple[Case, ...]:
        """The group's cases that this process asks."""
        mine = self.mine.get(group.id, frozenset())
        return tuple(case for case in group.cases if case.id in mine)


def _ids(group: Group) -> list[str]:
    return [case.id for case in group.cases]
