"""Index the lines of ``records.jsonl`` that count, so that a run of any size is read case by case.

If a request was sent again because its server had failed, the last reply counts. A judgment counts if it was written
after its reply.

If a model returns log-probabilities for some requests and not for others of the same kind, the others are returned as
failures, which count as wrong. Otherwise the model could choose what it is measured by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from attrs import define, evolve, field

from ke_core.results.lines import from_line, json_line, whole_lines
from ke_core.spec.codec import canonical, from_json, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.records import OWN, Batch, Judged, Probed, Record, Replied
from ke_core.spec.results import Failure, Reply
from ke_core.spec.runspec import Component

L = TypeVar("L", Replied, Judged, Probed)
Place = tuple[str, ...]
"""The key of a line of replies or judgments: batch, case, phase and style."""
Lines = dict[str, dict[Place, int]]
"""By case: the first byte of the last line of each place, in the order of the first lines."""
Kind = tuple[str, bool]
"""The kind of a reply: its phase, and whether it answers an editor's own prompt."""
DECLINED = "LikelihoodDeclined"
"""The error of a reply without log-probabilities if other replies of its kind have them."""


@define
class Index:
    """The positions of all lines that count, made by ``of``.

    ``batches`` have no ``details``. ``judges`` are keyed by ``key_of``, in the order of their last line. ``_probed`` is
    keyed by batch and metric, ``_judged`` by judge.
    """

    file: Path
    batches: dict[str, Batch] = field(factory=dict)
    judges: dict[str, Component] = field(factory=dict)
    _replied: Lines = field(factory=dict)
    _judged: dict[str, Lines] = field(factory=dict)
    _probed: dict[tuple[str, str], int] = field(factory=dict)
    _spent: list[int] = field(factory=list)
    _scored: set[Kind] = field(factory=set)
    """The kinds of replies some of which have log-probabilities."""
    _judge_keys: dict[str, str] = field(factory=dict)
    """Keys of judges, by their canonical JSON in a line."""
    _within: dict[str, list[tuple[Batch, bool]]] = field(factory=dict)

    @classmethod
    def of(cls, file: Path) -> Index:
        """Index a file. Every line is read once. Raises BadRun for a damaged one."""
        made, start = cls(file), 0
        for number, line in whole_lines(file):
            where = f"{file}, line {number}"
            raw = json_line(line, of=where)
            try:
                made._take(raw, line, start, where)
            except (AttributeError, KeyError, TypeError):
                from_line(line, of=where)  # raises an error that names the field
                raise
            start += len(line)
        for batch in made.batches.values():
            controls, edited, control = set(batch.controls), (batch, True), (batch, False)
            for case in dict.fromkeys((*batch.cases, *batch.controls, *batch.skipped)):
                made._within.setdefault(case, []).append(control if case in controls else edited)
        return made

    @property
    def cases(self) -> Iterator[str]:
        """Every case with a record."""
        yield from dict.fromkeys((*self._within, *self._replied))

    @property
    def asked(self) -> frozenset[tuple[str, str]]:
        """Batch and phase of every reply."""
        return frozenset((batch, phase) for lines in self._replied.values() for batch, _, phase, _ in lines)

    def within(self, case: str) -> list[tuple[Batch, bool]]:
        """Return the batches of ``case`` in order, each with False if the case is a control there."""
        return self._within.get(case, [])

    def replies(self, case: str) -> list[Replied]:
        """Return the last replies of each place of ``case``, in the order of the first requests."""
        return self._lines(self._replied.get(case, {}).values(), Replied)

    def first_of(self, batch: str) -> str:
        """Return the first case with a reply of ``batch``."""
        return next(case for case, lines in self._replied.items() if any(place[0] == batch for place in lines))

    def judgments(self, case: str, judge: str) -> dict[Place, Judged]:
        """Return the judgments of ``judge``, by place."""
        replied, judged = self._replied.get(case, {}), self._judged.get(judge, {}).get(case, {})
        starts = [start for place, start in judged.items() if start > replied.get(place, start)]
        return {line.place: line for line in self._lines(starts, Judged)}

    def unjudged(self, case: str, judge: str) -> list[Replied]:
        """Return the replies of ``case`` that ``judge`` has not judged."""
        return self._lines(self._open(case, judge), Replied)

    def count(self, judge: str | None = None) -> int:
        """Return the number of lines of replies, or of those that ``judge`` has not judged."""
        if judge is None:
            return sum(map(len, self._replied.values()))
        return sum(len(self._open(case, judge)) for case in self._replied)

    def probed(self, batch: str, metric: str) -> Probed | None:
        """Return the replies of the model of ``batch`` to the requests of ``metric``, if there are any."""
        at = self._probed.get((batch, metric))
        return None if at is None else self._lines([at], Probed)[0]

    def last(self, judge: str) -> Judged | None:
        """Return the last line of ``judge``."""
        starts = [max(lines.values()) for lines in self._judged.get(judge, {}).values()]
        return self._lines([max(starts)], Judged)[0] if starts else None

    def records(self) -> Iterator[Record]:
        """Yield every record that counts: batches without ``details``, and only the last judgment."""
        yield from self.batches.values()
        replied = sorted(start for lines in self._replied.values() for start in lines.values())
        yield from self._read([*self._spent, *self._probed.values(), *replied])
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
            key = self._judge_key(raw["judge"], where)
            self.judges[key] = self.judges.pop(key)
            self._note(self._judged.setdefault(key, {}), raw, start)
        elif kind == "probed":
            self._probed[raw["batch"], raw["metric"]] = start
            self._note_scored(raw)
        else:
            self._spent.append(start)

    def _judge_key(self, raw: Any, where: str) -> str:
        """Return the key of the judge of a line. Most lines have the same judge."""
        text = canonical(raw)
        if text not in self._judge_keys:
            judge = from_json(raw, Component, of=where, error=BadRun)
            self._judge_keys[text] = key_of(judge)
            self.judges.setdefault(self._judge_keys[text], judge)
        return self._judge_keys[text]

    def _note(self, lines: Lines, raw: Mapping[str, Any], start: int) -> None:
        batch, case, phase, style = (intern(raw[name]) for name in ("batch", "case", "phase", "style"))
        lines.setdefault(case, {})[batch, case, phase, style] = start

    def _note_scored(self, raw: Mapping[str, Any]) -> None:
        if any(reply["kind"] == "scored" for reply in raw["replies"].values()):
            self._scored.add(_kind(raw["phase"], raw.get("style", "")))

    def _counted(self, record: Record) -> Record:
        """Return ``record`` with failures for missing log-probabilities, if other replies of their kind have them."""
        if isinstance(record, Replied | Probed) and _kind(record.phase, getattr(record, "style", "")) in self._scored:
            return evolve(record, replies=_declined(record.replies))
        return record

    def _open(self, case: str, judge: str) -> list[int]:
        judged = self._judged.get(judge, {}).get(case, {})
        return [start for place, start in self._replied.get(case, {}).items() if judged.get(place, -1) < start]

    def _lines(self, starts: Collection[int], kind: type[L]) -> list[L]:
        return [line for line in self._read(starts) if isinstance(line, kind)]

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
                    from_line(line, of=f"{self.file}, line {number}")  # the same error, with the line number
                    raise


def key_of(judge: Component) -> str:
    """Return the key of a judge."""
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


def _lean(batch: Batch) -> Batch:
    """Return a batch without ``details``. Each case id is stored once."""
    return evolve(
        batch,
        cases=tuple(map(intern, batch.cases)),
        controls=tuple(map(intern, batch.controls)),
        unasked=tuple(map(intern, batch.unasked)),
        details={},
    )
