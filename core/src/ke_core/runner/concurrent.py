"""Groups that are asked together: edited models that leave the model alone stand side by side.

A group may be a single case with a handful of questions. Asked one group after another, the model would read a few
prompts at a time; side by side, hundreds of questions advance together under every protocol.
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
from ke_core.runner.job import Job
from ke_core.runner.loop import CHUNK, PendingBatch, Runner
from ke_core.runner.plan import Group
from ke_core.runner.requests import RequestGroup
from ke_core.runner.usage import Meter
from ke_core.spec.errors import EditFailed, PluginBroken
from ke_core.spec.protocols import Ask, SupportsConcurrentSolve
from ke_core.spec.requests import Procedure
from ke_core.spec.results import Reply

ENOUGH = CHUNK
"""Questions that are enough to batch: more groups are left for the next time."""
MOST = 64
"""Groups at once, however few questions they have: each has an edited model of its own in memory."""


@frozen(kw_only=True)
class _Standing:
    """A group with its edited model, and what of it is not on record."""

    begun: PendingBatch
    edited: SupportsConcurrentSolve
    units: tuple[RequestGroup, ...]

    @property
    def asks(self) -> list[Ask]:
        return [ask for unit in self.units for ask in unit.questions]


def ask_groups(loop: Runner, groups: Sequence[Group]) -> None:
    """``loop.ask_edited`` for each of ``groups``: where they can, as many together as have enough questions."""
    for some in _enough(loop, groups) if _can_stand_abreast(loop.job) else ([group] for group in groups):
        if len(some) == 1:
            loop.ask_edited(some[0])
            continue
        with untouched(loop.job.session.model, loop.before), ExitStack() as stack:
            standing = list[_Standing]()
            for group in some:
                if (one := _stand(loop, group, stack)) is not None:
                    _refuse_shared(one, standing, loop.job.editor_spec.name)
                    standing.append(one)
            _ask(loop, standing)


def _can_stand_abreast(job: Job) -> bool:
    """Whether several edited models can exist at once, and no question belongs to two of them."""
    return not job.editor_spec.needs_weights and job.spec.plan.protocol == "partition"


def _enough(loop: Runner, groups: Sequence[Group]) -> Iterator[list[Group]]:
    some, waiting = list[Group](), 0
    for group in groups:
        some.append(group)
        waiting += sum(len(unit.questions) for unit in loop.open_units(group, {}, {}))
        if waiting >= ENOUGH or len(some) == MOST:
            yield some
            some, waiting = [], 0
    if some:
        yield some


def _stand(loop: Runner, group: Group, stack: ExitStack) -> _Standing | None:
    """Make the edits of ``group``; None where there is nothing to ask, or it was asked in another way."""
    begun = loop.begin(group)
    if begun is None:
        return None
    try:
        made = stack.enter_context(applied_edits(loop.job, begun.feasible.edits))
    except EditFailed as error:
        loop.fail(begun, error)
        return None
    loop.recorder.add_batch(made.on(begun.batch))
    loop.recorder.count_edit()
    if not isinstance(made.edited, SupportsConcurrentSolve):
        loop.ask_cases(group, begun.cases, begun.bank, made.edited)
        return None
    units = loop.open_units(group, begun.feasible.skipped, begun.bank)
    return _Standing(begun=begun, edited=made.edited, units=tuple(units))


def _refuse_shared(one: _Standing, others: Sequence[_Standing], name: str) -> None:
    """Raise PluginBroken for an edited model that has taken over another group's."""
    if any(one.edited is other.edited for other in others):
        raise PluginBroken(
            f"editor {name} has one edited model for several groups of edits, which are asked together",
            hint="its edit() must make a new one each time, or the edited model have no solve()",
        )


def _ask(loop: Runner, standing: Sequence[_Standing]) -> None:
    """Ask all of them together, record what each was asked, then what metrics ask of every model."""
    asks = [ask for one in standing for ask in one.asks]
    with Meter(loop.job.session.model) as meter:
        started = perf_counter()
        replies = iter(_answers(loop, standing, asks))
        each = (perf_counter() - started) / max(1, len(asks))
    for one in standing:
        count, group = len(one.asks), one.begun.group
        own = list(islice(replies, count))
        loop.recorder.add(group.id, one.units, own, seconds=each * count, memory=meter.peak)
        loop.probe(group, one.edited)
        loop.advance("edited model", len(one.begun.cases))


def _answers(loop: Runner, standing: Sequence[_Standing], asks: Sequence[Ask]) -> list[Reply]:
    """One reply for each of ``asks``, in order, from the edited model that it is put to."""
    session = loop.job.session
    if all(asks_only_the_model(one.edited, session) for one in standing):
        return PassthroughModel(session).answer(asks)
    edited = {ask.id: one.edited for one in standing for ask in one.asks}

    def answer(some: Sequence[Blinded]) -> list[Reply]:
        of = {blinded.seen.id: edited[blinded.real.id] for blinded in some}

        def solve(ask: Ask) -> Procedure[Reply]:
            return of[ask.id].solve(ask)

        return session.engine.answer(solve, [blinded.seen for blinded in some])

    return loop.blinder.put(asks, answer)
