"""Concurrent groups: ask several edited models together if their editor leaves the weights unchanged.

A group may be a single case with a handful of requests. One group after another, the model would read a few prompts at
a time. Together, hundreds of requests advance at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from time import perf_counter

from attrs import frozen

from ke_core.engine.passthrough import PassthroughModel, asks_only_the_model
from ke_core.runner.apply import applied_edits, untouched
from ke_core.runner.blinding import Blinded
from ke_core.runner.plan import Group
from ke_core.runner.requests import RequestGroup
from ke_core.runner.steps import CHUNK, EDITED, PendingBatch, Runner
from ke_core.runner.usage import Meter
from ke_core.spec.errors import EditFailed, PluginBroken
from ke_core.spec.protocols import SupportsConcurrentSolve
from ke_core.spec.requests import Ask, Procedure
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

    @property
    def asks(self) -> list[Ask]:
        """The requests, in order."""
        return [ask for unit in self.units for ask in unit.questions]


def concurrent_groups(runner: Runner) -> Iterator[list[Group]]:
    """The groups of this process, as many together as have enough requests, or one at a time.

    Several edited models can exist at once only if the editor changes no weights and no request belongs to two of them.
    """
    run = runner.run
    groups = [group for group in run.groups if runner.share.takes(group)]
    if run.editor_spec.needs_weights or run.spec.plan.protocol != "partition":
        yield from ([group] for group in groups)
        return
    some, waiting = list[Group](), 0
    for group in groups:
        some.append(group)
        waiting += sum(len(unit.questions) for unit in runner.open_units(group, {}, {}))
        if waiting >= ENOUGH or len(some) == MOST:
            yield some
            some, waiting = [], 0
    if some:
        yield some


def ask_together(runner: Runner, groups: Sequence[Group]) -> None:
    """Apply the edits of all ``groups``, each in an edited model of its own, and ask these models together."""
    with untouched(runner.run.session.model, runner.before), ExitStack() as stack:
        active = list[ActiveBatch]()
        for group in groups:
            if (one := _activate(runner, group, stack)) is not None:
                _refuse_shared(one, active, runner.run.editor_spec.name)
                active.append(one)
        _ask(runner, active)


def _activate(runner: Runner, group: Group, stack: ExitStack) -> ActiveBatch | None:
    """Apply the edits of ``group``. None if there is nothing to ask, or if it was asked on its own."""
    pending = runner.begin(group)
    if pending is None:
        return None
    try:
        applied = stack.enter_context(applied_edits(runner.run, pending.valid.edits))
    except EditFailed as error:
        runner.fail(pending, error)
        return None
    runner.recorder.add_batch(applied.on(pending.batch))
    runner.recorder.count_edit()
    if not isinstance(applied.edited, SupportsConcurrentSolve):
        runner.ask_cases(group, pending.cases, pending.bank, applied.edited)
        return None
    units = runner.open_units(group, pending.valid.skipped, pending.bank)
    return ActiveBatch(pending=pending, edited=applied.edited, units=tuple(units))


def _refuse_shared(one: ActiveBatch, others: Sequence[ActiveBatch], name: str) -> None:
    """Raise PluginBroken if two groups have the same edited model."""
    if any(one.edited is other.edited for other in others):
        raise PluginBroken(
            f"editor {name} has one edited model for several groups of edits, which are asked together",
            hint="its edit() must make a new one each time, or the edited model have no solve()",
        )


def _ask(runner: Runner, active: Sequence[ActiveBatch]) -> None:
    """Ask all of them together, record each group's replies, then send the metrics' own requests."""
    asks = [ask for one in active for ask in one.asks]
    engine = runner.run.session.engine
    with Meter(runner.run.session.model) as meter:
        started, hits = perf_counter(), engine.hits
        replies = iter(_answers(runner, active, asks))
        each, cached = (perf_counter() - started) / max(1, len(asks)), engine.hits > hits
    for one in active:
        count, group = len(one.asks), one.pending.group
        own = list(islice(replies, count))
        runner.recorder.add(group.id, one.units, own, seconds=each * count, memory=meter.peak, cached=cached)
        runner.probe(group, one.edited)
        runner.advance(EDITED, len(one.pending.cases))


def _answers(runner: Runner, active: Sequence[ActiveBatch], asks: Sequence[Ask]) -> list[Reply]:
    """One reply for each of ``asks``, in order, from the edited model that it belongs to."""
    session = runner.run.session
    if all(asks_only_the_model(one.edited, session) for one in active):
        return PassthroughModel(session).answer(asks)
    edited = {ask.id: one.edited for one in active for ask in one.asks}

    def answer(some: Sequence[Blinded]) -> list[Reply]:
        of = {blinded.seen.id: edited[blinded.real.id] for blinded in some}

        def solve(ask: Ask) -> Procedure[Reply]:
            return of[ask.id].solve(ask)

        return session.engine.answer(solve, [blinded.seen for blinded in some])

    return runner.blinder.put(asks, answer)
