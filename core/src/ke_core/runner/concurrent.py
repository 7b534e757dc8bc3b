"""Concurrent groups: ask several edited models together if their editor leaves the weights unchanged.

A group may be a single case with a handful of requests. One group after another, the model would read a few prompts at
a time. Together, hundreds of requests advance at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from attrs import frozen

from ke_core.engine.passthrough import PassthroughModel, asks_only_the_model
from ke_core.runner.blinding import Blinded
from ke_core.runner.plan import Group
from ke_core.runner.requests import RequestGroup
from ke_core.runner.steps import CHUNK, EDITED, PendingBatch, Runner
from ke_core.spec.errors import PluginBroken
from ke_core.spec.protocols import SupportsConcurrentSolve
from ke_core.spec.requests import EditorRequest, Procedure
from ke_core.spec.results import Reply

ENOUGH = CHUNK
"""The number of requests that is enough to batch."""
MOST = 64
"""The most groups at once: each has an edited model of its own in memory."""


@frozen(kw_only=True)
class ActiveBatch:
    """A group with its edited model, and its requests that are not recorded."""

    pending: PendingBatch
    edited: SupportsConcurrentSolve
    units: tuple[RequestGroup, ...]


def concurrent_groups(runner: Runner) -> Iterator[list[Group]]:
    """Yield the groups that this process has to ask, as many together as have enough requests, or one at a time.

    Several edited models can exist at once only if the editor changes no weights and no request belongs to two of them.
    """
    run = runner.run
    together = not run.editor_spec.needs_weights and run.spec.plan.protocol == "partition"
    some, waiting = list[Group](), 0
    for group in run.groups:
        if not runner.share.takes(group):
            continue
        if not runner.is_open(group):
            runner.advance(EDITED, len(runner.share.cases(group)))
            continue
        some.append(group)
        if together:
            waiting += sum(len(unit.questions) for unit in runner.open_units(group, (), {}))
        if not together or waiting >= ENOUGH or len(some) == MOST:
            yield some
            some, waiting = [], 0
    if some:
        yield some


def ask_together(runner: Runner, active: Sequence[ActiveBatch]) -> None:
    """Ask all edited models together, record each group's replies, then send the metrics' own requests."""
    for one, other in combinations(active, 2):
        if one.edited is other.edited:
            raise PluginBroken(
                f"editor {runner.run.editor_spec.name} has one edited model for several groups of edits, which are "
                "asked together",
                hint="its edit() must make a new one each time, or the edited model have no solve()",
            )
    runner.send([(one.pending.group.id, one.units) for one in active], partial(_answers, runner, active))
    for one in active:
        runner.probe(one.pending.group, one.edited)
        runner.advance(EDITED, len(one.pending.cases))


def _answers(runner: Runner, active: Sequence[ActiveBatch], requests: Sequence[EditorRequest]) -> list[Reply]:
    """Return one reply for each of ``requests``, in order, from the edited model of its group."""
    session = runner.run.session
    if all(asks_only_the_model(one.edited, session) for one in active):
        return PassthroughModel(session).answer(requests)
    edited = {request.id: one.edited for one in active for unit in one.units for request in unit.questions}

    def answer(some: Sequence[Blinded]) -> list[Reply]:
        of = {blinded.seen.id: edited[blinded.real.id] for blinded in some}

        def solve(request: EditorRequest) -> Procedure[Reply]:
            return of[request.id].solve(request)

        return session.engine.answer(solve, [blinded.seen for blinded in some])

    return runner.blinder.put(requests, answer)
