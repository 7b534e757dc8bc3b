"""Share a run among processes: each writes its own records, and rank 0 merges them in the order of the plan.

If a process dies, its records stay next to ``records.jsonl``. The next start merges them, with any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import DAMAGED, PART, RECORDS, RunFolder
from ke_core.results.lines import from_line, whole_lines
from ke_core.results.writer import Writer, open_writer
from ke_core.runner.plan import Group, groups, select, stages
from ke_core.runner.recorded import RecordedRun
from ke_core.runner.requests import RequestBuilder, RequestGroup
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.runner.world import World
from ke_core.spec.codec import digest, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.protocols import Dataset
from ke_core.spec.records import Batch, Probed, Record, Replied, Usage, unanswered
from ke_core.spec.runspec import RunSpec
from ke_core.spec.specs import EditorSpec

KINDS = (Batch, Replied, Probed, Usage)
"""The order of the records of one group."""
BLOCK = 1 << 20


@contextmanager
def claimed(folder: RunFolder, world: World) -> Iterator[Writer | None]:
    """Lock the folder for this run. The first process holds the lock, the others wait for it.

    Raises BadRun if another run is writing there or if records were changed manually after they were scored, and
    ProcessLost if another process has died.
    """
    if not world.leads:
        world.meet()
        yield None
        return
    with folder.writing() as writer:
        folder.set_aside(writer)
        folder.refuse_changed()  # resuming would score the changed records
        world.meet()
        yield writer


@contextmanager
def shared(
    folder: RunFolder, world: World, order: Sequence[Group], first: str, held: Writer | None = None
) -> Iterator[Writer]:
    """Open the file to which this process appends. At the end, if no process failed, all is in ``records.jsonl``.

    ``order``: the groups in the order of a single process, after the batch called ``first``. ``held``: the writer of
    ``claimed``. Raises BadRun if another run is writing there, ProcessLost if another process has died.
    """
    if world.size == 1 and not folder.parts():
        with folder.writing(held) as writer:
            yield writer
        return
    if not world.leads:
        world.meet()
        with open_writer(_part(folder, world.rank)) as writer:
            yield writer
        world.meet()
        return
    with folder.writing(held) as whole:
        _merge(folder, whole, order, first)
        world.meet()
        with open_writer(_part(folder, world.rank)) as writer:
            yield writer
        world.meet()
        _merge(folder, whole, order, first)


def _part(folder: RunFolder, rank: int) -> Path:
    return folder.path / PART.format(rank=rank)


def _merge(folder: RunFolder, whole: Writer, order: Sequence[Group], first: str) -> None:
    """Append the records of the parts that ``records.jsonl`` lacks, and delete the parts.

    If several processes edited a group, the record of the first one counts. The usage of a server counts for each
    process, but once if the merge was killed and repeated. If a record holds a failure of a server, a later reply is
    merged too.
    """
    known = _known(folder)
    new: dict[tuple[object, ...], _Line] = {}
    batches = {first: -1} | {group.id: number for number, group in enumerate(order)}
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
                found = _Line(place=_place(record, batches, cases), part=part, start=start, size=len(line))
                new.setdefault(key, found)
            start += len(line)
    whole.append_lines(_blocks(sorted(new.values(), key=lambda line: line.place)))
    for part in folder.parts():
        part.unlink()


def _known(folder: RunFolder) -> dict[tuple[object, ...], str | None]:
    """Return the keys of the recorded lines, with a digest of those that are asked again."""
    return {_key(one, ""): digest(to_json(one)) if _is_open(one) else None for one in folder.read()}


@frozen(kw_only=True)
class _Line:
    """A line of a file, and its ``place`` in the order of the plan."""

    place: tuple[int, int, int]
    part: Path
    start: int
    size: int


def _blocks(lines: Iterable[_Line]) -> Iterator[bytes]:
    """Yield the lines, about ``BLOCK`` bytes at a time."""
    with ExitStack() as stack:
        streams: dict[Path, BinaryIO] = {}
        block = bytearray()
        for line in lines:
            if line.part not in streams:
                streams[line.part] = stack.enter_context(line.part.open("rb"))
            streams[line.part].seek(line.start)
            block += streams[line.part].read(line.size)
            if len(block) >= BLOCK:
                yield bytes(block)
                block.clear()
        yield bytes(block)


def _key(record: Record, place: str) -> tuple[object, ...]:
    """Return a key that is the same for records of which one is enough. Other records have their place as the key."""
    match record:
        case Batch():
            return ("batch", record.batch)
        case Replied() | Probed():
            return (type(record).__name__, *record.place)
        case Usage(id=name) if name:
            return ("spent", name)
        case _:
            return (type(record).__name__, place)


def _is_open(record: Record) -> bool:
    return isinstance(record, Replied | Probed) and unanswered(record)


def _place(record: Record, batches: dict[str, int], cases: dict[str, int]) -> tuple[int, int, int]:
    batch, case = getattr(record, "batch", None), getattr(record, "case", None)
    return (batches.get(str(batch), len(batches)), KINDS.index(type(record)), cases.get(str(case), len(cases)))


Place = tuple[str, ...]
"""Where a record belongs: batch, case, phase and style, or batch and metric."""


@frozen(kw_only=True)
class Planned:
    """The planned requests of a run: ``groups`` for the unedited model, ``asked`` for edited models."""

    spec: RunSpec
    editor: EditorSpec
    asker: RequestBuilder
    groups: Sequence[Group]
    asked: Sequence[Group]

    @classmethod
    def of(cls, spec: RunSpec, editor: EditorSpec, dataset: Dataset, planned: Sequence[Group]) -> Planned:
        """From the specification of a run and its groups."""
        asked = [stage.asked for stage in stages(planned, spec.plan)] if spec.plan.sequential else planned
        asker = RequestBuilder.of(spec, editor, dataset)
        return cls(spec=spec, editor=editor, asker=asker, groups=planned, asked=asked)

    def missing(self, folder: RunFolder) -> list[Place]:
        """Return the places of what is planned and not recorded."""
        batches: dict[str, Batch] = {}
        places: set[Place] = set()
        for record in folder.read():
            if isinstance(record, Batch):
                batches[record.batch] = record
            elif isinstance(record, Replied | Probed):
                places.add(record.place)
        planned = [self._unedited(), *(self._edited(group, batches.get(group.id)) for group in self.asked)]
        return [place for each in planned for place in each if place not in places]

    def _unedited(self) -> Iterator[Place]:
        cases = [case for group in self.groups for case in group.cases] if self.editor.needs_model else []
        for case in cases:
            control = self.asker.control(case) if self.editor.own_before else []
            yield from _places(UNEDITED_BATCH, [*self.asker.before(case), *control])
        if cases:
            yield from self._probed(UNEDITED_BATCH)

    def _edited(self, group: Group, batch: Batch | None) -> Iterator[Place]:
        """Return the planned places of one edited model. A step without questions has none."""
        if batch is None:
            yield (group.id,)  # the place of no record
            return
        open_ = {*batch.cases, *batch.controls}.difference(batch.skipped)
        for case in group.cases:
            if case.id in open_:
                yield from _places(group.id, self.asker.after(case, {}, edited=group.edits(case)))
        if group.asked if self.spec.plan.sequential else batch.edits:
            yield from self._probed(group.id)

    def _probed(self, batch: str) -> Iterator[Place]:
        return ((batch, ask.component.name) for ask in self.spec.asks)


def refuse_gaps(planned: Planned, folder: RunFolder) -> None:
    """Raise BadRun if something that is planned is not recorded."""
    if gaps := planned.missing(folder):
        raise BadRun(
            f"{folder.path / RECORDS} does not hold all that was to be asked: {len(gaps)} are not there, the first of "
            f"them {', '.join(gaps[0])}",
            hint="start the same run again, with any number of processes: it resumes",
        )


def close_if_complete(folder: RunFolder, catalog: Catalog, known: RecordedRun) -> None:
    """Mark a scored run as finished if its records hold everything that it asks.

    What it asks depends on its editor: without that plugin, the run stays as it is.
    """
    offer = catalog.offers["editor"].get(folder.spec.editor.name)
    if folder.complete or offer is None or not isinstance(offer.spec, EditorSpec):
        return
    spec = folder.spec
    planned = groups(select([*known.cases], spec.plan, spec.seed), spec.plan, spec.seed, known.dataset.split)
    if not Planned.of(spec, offer.spec, known.dataset, planned).missing(folder):
        folder.close()


def _places(batch: str, units: Iterable[RequestGroup]) -> Iterator[Place]:
    return ((batch, unit.case, unit.phase, unit.style) for unit in units if unit.questions)
