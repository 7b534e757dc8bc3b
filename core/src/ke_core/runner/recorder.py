"""Append replies to the records, and know which ones are recorded, by (batch, case, phase, style)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from ke_core.results.writer import Writer
from ke_core.runner.requests import RequestGroup
from ke_core.spec.errors import NotFinite, TooManyFailures
from ke_core.spec.queries import Phase
from ke_core.spec.records import Batch, Probed, Record, Replied, Usage, unanswered
from ke_core.spec.results import Failure, Peak, Reply, Scored

LIMIT = 10
"""The run stops after this many identical failures in a row: a dead server, a full GPU, a bug."""
REASON = 200  # characters of a reason that is counted; the records hold all of it


@define
class Streak:
    """Count identical failures in a row."""

    length: int = 0
    _last: tuple[str, str] | None = None

    def note(self, failure: Failure | None) -> None:
        """Count one failure, or None for a success.

        The messages of a server that is down may differ, for example by the number of a request.
        """
        kind = None if failure is None else (failure.error, "" if failure.passing else failure.message)
        self.length = 0 if kind is None else self.length + 1 if kind == self._last else 1
        self._last = kind


@define
class Recorder:
    """Appends records, and knows which replies are recorded.

    ``spent`` returns the usage of the server since the last call. ``batches`` are the recorded ones, without their
    ``details``. ``reasons`` are those of failures in this process. ``new``: batches that this process has added.
    """

    writer: Writer
    spent: Callable[[], Sequence[Usage]] = tuple
    batches: dict[str, Batch] = field(factory=dict)
    reasons: Counter[str] = field(factory=Counter)
    new: list[Batch] = field(factory=list)
    _done: set[tuple[str, ...]] = field(factory=set)
    _edits: Streak = field(factory=Streak)
    _replies: Streak = field(factory=Streak)

    def edit_costs(self) -> dict[str, Any]:
        """Return the number of edits that this process has made and their time."""
        seconds = sum(batch.seconds for batch in self.new)
        return {"edits": sum(batch.edits for batch in self.new), "edit_seconds": round(seconds, 3)}

    def recall(self, records: Iterable[Record]) -> None:
        """Read what earlier processes recorded."""
        for record in records:
            if isinstance(record, Batch):
                self._keep(record)
            elif isinstance(record, Replied | Probed):
                self._note(record)

    def missing(self, batch: str, units: Iterable[RequestGroup]) -> list[RequestGroup]:
        """Return the groups of requests that are not recorded, or whose server failed."""
        return [
            unit for unit in units if unit.questions and (batch, unit.case, unit.phase, unit.style) not in self._done
        ]

    def probed(self, batch: str, metric: str) -> bool:
        """Return whether the metric's requests to this model are recorded, without a failure of a server."""
        return (batch, metric) in self._done

    def add_probed(self, record: Probed) -> None:
        """Record the replies to a metric's own requests. Raises TooManyFailures, and then records nothing."""
        clean = evolve(record, replies={query: _finite(reply) for query, reply in record.replies.items()})
        for reply in clean.replies.values():
            self._count(reply, record.phase)
            if self._replies.length == LIMIT:
                raise _too_many(reply)
        self._append([clean])
        self.add_spent()

    def add_batch(self, batch: Batch) -> None:
        """Record a batch of edits, unless it was recorded before and is applied again to finish it."""
        if batch.batch not in self.batches:
            self.writer.append([batch])
            self._keep(batch)
            self.new.append(self.batches[batch.batch])

    def add(
        self,
        batch: str,
        units: Sequence[RequestGroup],
        replies: Iterator[Reply],
        *,
        each: float,
        memory: Peak,
        cached: bool,
    ) -> None:
        """Record the next ``replies`` as those to the questions of ``units``, in order.

        ``each``: the seconds for each reply. ``memory``: the peak of all of them. ``cached``: completions came from the
        cache, so the time is not what the replies cost.

        Raises TooManyFailures. The groups with these failures are then not recorded, so a resumed run asks them again.
        """
        records: list[Replied] = []
        clean = 0  # groups before the failures in a row
        for unit in units:
            found = {question.query: _finite(reply) for question, reply in zip(unit.questions, replies, strict=False)}
            took = round(each * len(found), 4)
            records.append(_replied(batch, unit, found, seconds=took, memory=memory, cached=cached))
            for reply in found.values():
                self._count(reply, unit.phase)
                if self._replies.length == LIMIT:
                    self._append(records[:clean])
                    raise _too_many(reply)
            if not self._replies.length:
                clean = len(records)
        self._append(records)
        self.add_spent()

    def count_edit(self, failure: Failure | None = None) -> None:
        """Count a success or a failure of edits. Raises TooManyFailures.

        Replies are counted separately: if a server is down, edits may succeed although no question is answered.
        """
        self._edits.note(failure)
        if failure is None:
            return
        self._add_reason(failure)
        if self._edits.length == LIMIT:
            raise _too_many(failure)

    def add_failed(
        self, batch: str, units: Sequence[RequestGroup], failure: Failure, *, probed: Sequence[Probed] = ()
    ) -> None:
        """Record the failure of the edits as the reply to every request of ``units``.

        ``probed``: the records of the metrics' own requests, with the same reply.
        """
        self._append(
            [_replied(batch, unit, {question.query: failure for question in unit.questions}) for unit in units]
        )
        self._append(probed)

    def add_spent(self) -> None:
        """Record the usage of the server since the last call, if any."""
        if spent := self.spent():
            self.writer.append(spent)

    def _keep(self, batch: Batch) -> None:
        """Keep a batch without its details, which may be long."""
        self.batches[batch.batch] = evolve(batch, details={})

    def _append(self, records: Sequence[Replied | Probed]) -> None:
        self.writer.append(records)
        for record in records:
            self._note(record)

    def _note(self, record: Replied | Probed) -> None:
        if not unanswered(record):
            self._done.add(record.place)

    def _count(self, reply: Reply, phase: Phase) -> None:
        """Count a reply.

        Prompts that are too long or refused, and models that an edit has destroyed, are results and do not stop the
        run.
        """
        failure = reply if isinstance(reply, Failure) and not reply.unscored else None
        if failure is not None:
            self._add_reason(failure)
        destroyed = failure is not None and failure.error == NotFinite.__name__ and phase == "after"
        self._replies.note(None if failure is None or failure.particular or destroyed else failure)

    def _add_reason(self, failure: Failure) -> None:
        self.reasons[" ".join(f"{failure.error}: {failure.message}".split())[:REASON]] += 1


def _replied(batch: str, unit: RequestGroup, replies: Mapping[str, Reply], **costs: Any) -> Replied:
    return Replied(batch=batch, case=unit.case, phase=unit.phase, style=unit.style, replies=replies, **costs)


def _finite(reply: Reply) -> Reply:
    """Turn log-probabilities that are not finite into a failure, so that they do not vanish in a mean."""
    if isinstance(reply, Scored) and not all(map(math.isfinite, reply.logprobs)):
        return Failure(error=NotFinite.__name__, message=f"log-probabilities {reply.logprobs}")
    return reply


def _too_many(reply: Reply) -> TooManyFailures:
    assert isinstance(reply, Failure)
    return TooManyFailures(
        f"the same failure {LIMIT} times in a row: {reply.error}: {' '.join(reply.message.split())}",
        hint="fix the cause and start the same run again: it resumes, or with a new --out if code of a plugin changed",
    )
