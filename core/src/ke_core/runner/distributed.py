"""Share a run among processes: each writes its own records, and rank 0 merges them in the order of the plan.

If a process dies, its records stay next to ``records.jsonl``. The next start merges them, with any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from attrs import frozen

from ke_core.results.folder import DAMAGED, PART, RunFolder
from ke_core.results.lines import from_line, whole_lines
from ke_core.results.writer import Writer, open_writer
from ke_core.runner.plan import Group
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.runner.world import World
from ke_core.spec.codec import digest, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.records import Batch, Probed, Record, Replied, Usage, unanswered

KINDS = (Batch, Replied, Probed, Usage)
"""The order of the records of one group."""


@contextmanager
def recording(folder: RunFolder, world: World, order: Sequence[Group]) -> Iterator[Writer]:
    """Lock the folder for this run, and open the file to which this process appends.

    The first process holds the lock, and merges the records of all processes at the end. ``order``: the groups in the
    order of a single process. Raises BadRun if another run is writing there or if records were changed manually after
    they were scored, and ProcessLost if another process has died.
    """
    with folder.writing() if world.leads else nullcontext() as whole:
        if whole is not None:
            folder.set_aside(whole)
            folder.refuse_changed()  # resuming would score the changed records
            _merge(folder, whole, order)
        world.meet()
        with nullcontext(whole) if whole and world.size == 1 else open_writer(_part(folder, world.rank)) as writer:
            yield writer
        world.meet()
        if whole is not None and world.size > 1:
            _refuse_missing(folder, world.size)
            _merge(folder, whole, order)


def _refuse_missing(folder: RunFolder, processes: int) -> None:
    """Raise BadRun if a process has left no file of records: it wrote to another disk, or worked on another run."""
    for rank in range(processes):
        if not (part := _part(folder, rank)).exists():
            raise BadRun(
                f"process {rank} of {processes} has left no records: {part} is missing",
                hint="let all processes write to the same disk, and start the same run again: it resumes",
            )


def _part(folder: RunFolder, rank: int) -> Path:
    return folder.path / PART.format(rank=rank)


def _merge(folder: RunFolder, whole: Writer, order: Sequence[Group]) -> None:
    """Append the records of the parts that ``records.jsonl`` lacks, and delete the parts.

    If several processes edited a group, the record of the first one counts. The usage of a server is added for each
    process, and only once if the merge was killed and repeated. If a record holds a failure of a server, a later reply
    is merged too.
    """
    if not folder.parts():
        return
    # keys of the recorded lines, with a digest of lines whose requests are sent again
    known = {_key(one, ""): digest(to_json(one)) if unanswered(one) else None for one in folder.read()}
    new: dict[tuple[object, ...], _PlacedLine] = {}
    batches = {UNEDITED_BATCH: -1} | {group.id: number for number, group in enumerate(order)}
    cases: dict[str, int] = {}
    for group in order:
        for case in group.cases:
            cases.setdefault(case.id, len(cases))
    for part in folder.parts():
        with open_writer(part) as own:
            own.set_aside(folder.path / DAMAGED)
        start = 0
        for number, line in whole_lines(part):
            place = f"{part}, line {number}"
            record = from_line(line, of=place)
            key = _key(record, place)
            if key not in known or known[key] not in (None, digest(to_json(record))):
                found = _PlacedLine(place=_place(record, batches, cases), part=part, start=start, size=len(line))
                new.setdefault(key, found)
            start += len(line)
    whole.append_lines(_content(sorted(new.values(), key=lambda line: line.place)))
    for part in folder.parts():
        part.unlink()


@frozen(kw_only=True)
class _PlacedLine:
    """A line of a file, and its ``place`` in the order of the plan."""

    place: tuple[int, int, int]
    part: Path
    start: int
    size: int


def _content(lines: Sequence[_PlacedLine]) -> Iterator[bytes]:
    """Yield the content of the lines."""
    with ExitStack() as stack:
        streams = {part: stack.enter_context(part.open("rb")) for part in {line.part for line in lines}}
        for line in lines:
            streams[line.part].seek(line.start)
            yield streams[line.part].read(line.size)


def _key(record: Record, place: str) -> tuple[object, ...]:
    """Return the key of a record. Of records with the same key, only one is merged."""
    match record:
        case Batch():
            return ("batch", record.batch)
        case Replied() | Probed():
            return (type(record).__name__, *record.place)
        case Usage(id=name) if name:
            return ("spent", name)
        case _:
            return (type(record).__name__, place)


def _place(record: Record, batches: dict[str, int], cases: dict[str, int]) -> tuple[int, int, int]:
    batch, case = getattr(record, "batch", None), getattr(record, "case", None)
    return (batches.get(str(batch), len(batches)), KINDS.index(type(record)), cases.get(str(case), len(cases)))
