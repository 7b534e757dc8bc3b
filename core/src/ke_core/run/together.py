"""Several processes write one run: each its own records as it goes, put together by the first in the order of the plan.

A process that dies takes nothing with it: what each has written stays beside ``records.jsonl`` and is taken in by the
next start, of however many processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ke_core.data.records import Batch, Probed, Record, Replied, Spent
from ke_core.models.world import World
from ke_core.results.folder import RunFolder
from ke_core.results.lines import from_line, whole_lines
from ke_core.results.writer import Writer, writing
from ke_core.run.plan import Group

PART = "records.part-{rank}.jsonl"
KINDS = (Batch, Replied, Probed, Spent)
"""The order in which a process records them for one group."""


@contextmanager
def shared(folder: RunFolder, world: World, order: Sequence[Group], first: str) -> Iterator[Writer]:
    """Where this process appends records. At the end they are all in ``records.jsonl``, if no process failed.

    ``order``: the groups as one process would take them, after the batch called ``first``. Raises BadRun if another run
    is writing there, ProcessLost if another process has died.
    """
    if world.size == 1 and not _parts(folder):
        with folder.writing() as writer:
            yield writer
        return
    if not world.leads:
        world.meet()
        with writing(_part(folder, world.rank)) as writer:
            yield writer
        world.meet()
        return
    with folder.writing() as whole:
        _merge(folder, whole, order, first)
        world.meet()
        with writing(_part(folder, world.rank)) as writer:
            yield writer
        world.meet()
        _merge(folder, whole, order, first)


def _part(folder: RunFolder, rank: int) -> Path:
    return folder.path / PART.format(rank=rank)


def _parts(folder: RunFolder) -> list[Path]:
    return sorted(folder.path.glob(PART.format(rank="*")))


def _merge(folder: RunFolder, whole: Writer, order: Sequence[Group], first: str) -> None:
    """Append what the parts hold and ``records.jsonl`` does not, in one write, and then delete them.

    A group that several processes edited was recorded by each: the first one counts. What a server was paid counts
    for each process, be it the same sum twice; killed between writing and deleting, not again.
    """
    known = {_key(record, "") for record in folder.read()}
    new: dict[tuple[object, ...], Record] = {}
    for part in _parts(folder):
        for number, line in whole_lines(part):
            place = f"{part}, line {number}"
            record = from_line(line, of=place)
            new.setdefault(_key(record, place), record)
    batches = {first: -1} | {group.id: number for number, group in enumerate(order)}
    cases: dict[str, int] = {}
    for group in order:
        for case in group.cases:
            cases.setdefault(case.id, len(cases))
    whole.append(sorted((new[key] for key in new if key not in known), key=lambda one: _place(one, batches, cases)))
    for part in _parts(folder):
        part.unlink()


def _key(record: Record, place: str) -> tuple[object, ...]:
    """The same for records of which one is enough; of any other its place."""
    match record:
        case Batch():
            return ("batch", record.batch)
        case Replied():
            return ("replied", record.batch, record.case, record.phase, record.style)
        case Probed():
            return ("probed", record.batch, record.metric)
        case Spent(id=name) if name:
            return ("spent", name)
        case _:
            return (type(record).__name__, place)


def _place(record: Record, batches: dict[str, int], cases: dict[str, int]) -> tuple[int, int, int]:
    batch, case = getattr(record, "batch", None), getattr(record, "case", None)
    return (
        batches.get(str(batch), len(batches)),
        KINDS.index(type(record)),
        cases.get(str(case), len(cases)),
    )
