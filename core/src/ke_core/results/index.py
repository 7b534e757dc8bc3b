"""Index the lines of ``records.jsonl`` that count, so that a run of any size is read case by case.

A reply that was asked for again (its server had failed) counts as it was written last, and a judgment counts if it was
written after the reply that it is of.

A model that gives no log-probabilities at all is not measured by them. One that gives some, and declines others of the
same kind, would choose what it is measured by: what it declined is returned as a failure, which counts as wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any

from attrs import define, evolve, field

from ke_core.results.lines import from_line, json_line, whole_lines
from ke_core.spec.codec import canonical, from_json, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.records import OWN, Batch, Judged, Probed, Record, Replied
from ke_core.spec.results import Failure, Reply
from ke_core.spec.runspec import Component

Lines = dict[str, "array[int]"]
"""Case to its lines of one kind, in the order of the file: of each the number of its place, and its first byte."""
Kind = tuple[str, bool]
"""What replies have in common: the phase, and whether they were given to an editor's own prompts."""
DECLINED = "LikelihoodDeclined"
"""The error of a reply without log-probabilities, where others of its kind have them."""


@define
class Index:
    """Made by ``of``. ``batches`` are without their ``details``. ``judges`` are keyed by ``key_of``, in the order of
    their last line. Of all other lines it holds the place alone: ``_probed`` by batch and metric, ``_judged`` by judge.
    """

    file: Path
    batches: dict[str, Batch] = field(factory=dict)
    judges: dict[str, Component] = field(factory=dict)
    _places: dict[tuple[str, str, str], int] = field(factory=dict)
    _replied: Lines = field(factory=dict)
    _judged: dict[str, Lines] = field(factory=dict)
    _probed: dict[tuple[str, str], int] = field(factory=dict)
    _spent: list[int] = field(factory=list)
    _scored: set[Kind] = field(factory=set)
    """The kinds of replies of which some have log-probabilities."""
    _heard_of: dict[str, str] = field(factory=dict)
    """A judge as a line has it, to what it is found by."""
    _order: list[Batch] = field(factory=list)
    _within: dict[str, array[int]] = field(factory=dict)
    """Case to the numbers of its batches in ``_order``; the complement (~) where it is a control."""

    @classmethod
    def of(cls, file: Path) -> Index:
        """Read every line once, and keep none. Raises BadRun for a damaged one."""
        made, start = cls(file), 0
        for number, line in whole_lines(file):
            where = f"{file}, line {number}"
            raw = json_line(line, of=where)
            try:
                made._take(raw, line, start, where)
            except (AttributeError, KeyError, TypeError):
                from_line(line, of=where)  # it says in words what is not as it should be
                raise
            start += len(line)
        made._order = [*made.batches.values()]
        for number, batch in enumerate(made._order):
            controls = set(batch.controls)
            for case in dict.fromkeys((*batch.cases, *batch.controls, *batch.skipped)):
                made._within.setdefault(case, array("q")).append(~number if case in controls else number)
        return made

    @property
    def cases(self) -> Iterator[str]:
        """Every case with a record."""
        yield from dict.fromkeys((*self._within, *self._replied))

    @property
    def asked(self) -> frozenset[tuple[str, str]]:
        """Batch and phase of every reply."""
        return frozenset((batch, phase) for batch, phase, _style in self._places)

    def within(self, case: str) -> list[tuple[Batch, bool]]:
        """The batches that edit ``case``, ask it or leave it out, in order; and whether it is edited there."""
        return [(self._order[max(at, ~at)], at >= 0) for at in self._within.get(case, ())]

    def replies(self, case: str) -> list[Replied]:
        """The replies of ``case``, one line a place, in the order in which these were asked first."""
        return [line for line in self._read(_last(self._replied, case).values()) if isinstance(line, Replied)]

    def first_of(self, batch: str) -> str:
        """A case that ``batch`` has replied to."""
        numbers = {number for place, number in self._places.items() if place[0] == batch}
        return next(case for case, lines in self._replied.items() if numbers.intersection(lines[::2]))

    def judgments(self, case: str, judge: str) -> dict[tuple[str, ...], Judged]:
        """The judgments of ``judge``, by place."""
        replied, judged = _last(self._replied, case), _last(self._judged.get(judge, {}), case)
        starts = [start for place, start in judged.items() if start > replied.get(place, start)]
        return {line.place: line for line in self._read(starts) if isinstance(line, Judged)}

    def unjudged(self, case: str, judge: str) -> list[Replied]:
        """Those of ``replies`` that ``judge`` has not judged."""
        return [line for line in self._read(self._open(case, judge)) if isinstance(line, Replied)]

    def count(self, judge: str | None = None) -> int:
        """How many lines of replies there are; ``judge``: how many of them it has not judged."""
        if judge is None:
            return sum(len(_last(self._replied, case)) for case in self._replied)
        return sum(len(self._open(case, judge)) for case in self._replied)

    def probed(self, batch: str, metric: str) -> Probed | None:
        """What that metric asked of the model of ``batch``, if anything."""
        at = self._probed.get((batch, metric))
        found = None if at is None else next(self._read([at]))
        assert found is None or isinstance(found, Probed)
        return found

    def last(self, judge: str) -> Judged | None:
        """The last line of ``judge``."""
        starts = [lines[-1] for lines in self._judged.get(judge, {}).values()]
        found = next(self._read([max(starts)])) if starts else None
        assert found is None or isinstance(found, Judged)
        return found

    def records(self) -> Iterator[Record]:
        """Yield every record that counts: batches without ``details``, and only the last judgment."""
        yield from self.batches.values()
        replied = array("q", (start for case in self._replied for start in _last(self._replied, case).values()))
        yield from self._read([*self._spent, *self._probed.values(), *sorted(replied)])
        if self.judges and (said := self.last([*self.judges][-1])):
            yield said

    def _take(self, raw: dict[str, Any], line: bytes, start: int, where: str) -> None:
        kind = raw["kind"]
        if kind == "batch":
            batch = from_line(line, of=where)
            assert isinstance(batch, Batch)
            self.batches[batch.batch] = _lean(batch)
        elif kind == "replied":
            self._note(self._replied, raw, start)
            self._note_scored(raw)
        elif kind == "judged":
            key = self._heard(raw["judge"], where)
            self.judges[key] = self.judges.pop(key)
            self._note(self._judged.setdefault(key, {}), raw, start)
        elif kind == "probed":
            self._probed[raw["batch"], raw["metric"]] = start
            self._note_scored(raw)
        else:
            self._spent.append(start)

    def _heard(self, raw: Any, where: str) -> str:
        """What the judge of a line is found by; most lines have the same one."""
        text = canonical(raw)
        if text not in self._heard_of:
            judge = from_json(raw, Component, of=where, error=BadRun)
            self._heard_of[text] = key_of(judge)
            self.judges.setdefault(self._heard_of[text], judge)
        return self._heard_of[text]

    def _note(self, lines: Lines, raw: Mapping[str, Any], start: int) -> None:
        place = self._places.setdefault((raw["batch"], raw["phase"], raw["style"]), len(self._places))
        lines.setdefault(intern(raw["case"]), array("q")).extend((place, start))

    def _note_scored(self, raw: Mapping[str, Any]) -> None:
        if any(reply["kind"] == "scored" for reply in raw["replies"].values()):
            self._scored.add(_kind(raw["phase"], raw.get("style", "")))

    def _counted(self, record: Record) -> Record:
        """``record``, in which replies without log-probabilities are failures if others of their kind have them."""
        match record:
            case Replied() if _kind(record.phase, record.style) in self._scored:
                return evolve(record, replies=_declined(record.replies))
            case Probed() if _kind(record.phase, "") in self._scored:
                return evolve(record, replies=_declined(record.replies))
            case _:
                return record

    def _open(self, case: str, judge: str) -> list[int]:
        judged = _last(self._judged.get(judge, {}), case)
        return [start for place, start in _last(self._replied, case).items() if judged.get(place, -1) < start]

    def _read(self, starts: Collection[int]) -> Iterator[Record]:
        if not starts:  # there may be no file yet
            return
        with self.file.open("rb") as stream:
            for start in starts:
                stream.seek(start)
                line = stream.readline()
                try:
                    yield self._counted(from_line(line, of=str(self.file)))
                except BadRun:
                    stream.seek(0)
                    number = stream.read(start).count(b"\n") + 1
                    from_line(line, of=f"{self.file}, line {number}")  # the same, and where
                    raise


def key_of(judge: Component) -> str:
    """What a judge is found by."""
    return canonical(to_json(judge))


def _kind(phase: str, style: str) -> Kind:
    return phase, style == OWN


def _declined(replies: Mapping[str, Reply]) -> Mapping[str, Reply]:
    return {
        query: Failure(error=DECLINED, message=f"no log-probabilities here, but elsewhere in this run: {reply.message}")
        if isinstance(reply, Failure) and reply.unscored
        else reply
        for query, reply in replies.items()
    }


def _last(lines: Mapping[str, array[int]], case: str) -> dict[int, int]:
    """Place to the first byte of its last line."""
    found = lines.get(case, ())
    return dict(zip(found[::2], found[1::2], strict=True))


def _lean(batch: Batch) -> Batch:
    """Without what editors note for people; each case id is kept once."""
    return evolve(
        batch,
        cases=tuple(map(intern, batch.cases)),
        controls=tuple(map(intern, batch.controls)),
        unasked=tuple(map(intern, batch.unasked)),
        details={},
    )
