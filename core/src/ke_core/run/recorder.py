"""What a run has on record, and what it adds: replies by (batch, case, phase, style)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from attrs import define, evolve, field

from ke_core.data.records import Batch, Judged, Probed, Record, Replied, Spent
from ke_core.data.results import Failure, Peak, Reply, Scored
from ke_core.errors import TooManyFailures
from ke_core.results.writer import Writer
from ke_core.run.asks import Unit

NO_PEAK = Peak()
LIMIT = 10
"""This many identical failures in a row stop the run: a dead server, a full GPU, a bug."""
REASON = 200  # characters of a reason that is counted; the records hold the whole


@define
class Recorder:
    """``batches`` are those on record; ``failures`` counts the ``Failure`` replies on record.

    ``spent``: what a server was asked since it was last called. ``reasons``: of the failures of this process.
    """

    writer: Writer
    spent: Callable[[], Sequence[Spent]] = tuple
    batches: dict[str, Batch] = field(factory=dict)
    failures: int = 0
    reasons: Counter[str] = field(factory=Counter)
    _done: set[tuple[str, str, str, str]] = field(factory=set)
    _probed: set[tuple[str, str]] = field(factory=set)
    _last: Failure | None = None
    _streak: int = 0

    def recall(self, records: Iterable[Record]) -> None:
        """Take in what an earlier process recorded."""
        for record in records:
            if isinstance(record, Batch):
                self.batches[record.batch] = record
            elif isinstance(record, Probed):
                self._probed.add((record.batch, record.metric))
                self.failures += _failures(record.replies.values())
            elif not isinstance(record, Judged | Spent):
                self._note(record)

    def missing(self, batch: str, units: Iterable[Unit]) -> list[Unit]:
        """The units that have questions and are not on record."""
        return [
            unit for unit in units if unit.questions and (batch, unit.case, unit.phase, unit.style) not in self._done
        ]

    def probed(self, batch: str, metric: str) -> bool:
        """Whether what that metric asks of every model is on record for this one."""
        return (batch, metric) in self._probed

    def add_probed(self, record: Probed) -> None:
        """Record the replies to what a metric asks of every model. Raises TooManyFailures, and then records nothing."""
        clean = evolve(record, replies={query: _finite(reply) for query, reply in record.replies.items()})
        for reply in clean.replies.values():
            self._count(reply)
            if self._streak == LIMIT:
                raise _too_many(reply)
        self.writer.append([clean])
        self.recall([clean])
        self.add_spent()

    def add_batch(self, batch: Batch) -> None:
        """Record that an edit was made; one that is made again to finish its batch is on record already."""
        if batch.batch not in self.batches:
            self.writer.append([batch])
            self.batches[batch.batch] = batch

    def add(
        self,
        batch: str,
        units: Sequence[Unit],
        replies: Iterable[Reply],
        *,
        seconds: float = 0.0,
        memory: Peak = NO_PEAK,
    ) -> None:
        """Record the replies to the questions of ``units``, in order, which took ``seconds`` and ``memory`` together.

        Raises TooManyFailures. Units that hold a part of the row of failures are then not recorded, so that
        the run, started again once the cause is mended, asks them again.
        """
        rest = iter(replies)
        each = seconds / max(1, sum(len(unit.questions) for unit in units))
        records: list[Replied] = []
        clean = 0  # units before the row of failures
        for unit in units:
            found = {question.query: _finite(reply) for question, reply in zip(unit.questions, rest, strict=False)}
            records.append(
                Replied(
                    batch=batch,
                    case=unit.case,
                    phase=unit.phase,
                    style=unit.style,
                    replies=found,
                    seconds=round(each * len(found), 4),
                    memory=memory,
                )
            )
            for reply in found.values():
                self._count(reply)
                if self._streak == LIMIT:
                    self._append(records[:clean])
                    raise _too_many(reply)
            if not self._streak:
                clean = len(records)
        self._append(records)
        self.add_spent()

    def add_failed(self, batch: str, units: Sequence[Unit], failure: Failure, *, probed: Sequence[Probed] = ()) -> None:
        """Record that a batch's edit failed: one failure, which every question of ``units`` gets as its reply.

        ``probed``: what metrics would have asked of the edited model, with the same reply.
        """
        self._count(failure)
        if self._streak == LIMIT:
            raise _too_many(failure)
        self._append(
            [
                Replied(
                    batch=batch,
                    case=unit.case,
                    phase=unit.phase,
                    style=unit.style,
                    replies={question.query: failure for question in unit.questions},
                )
                for unit in units
            ]
        )
        self.writer.append(probed)
        self.recall(probed)

    def add_spent(self) -> None:
        """Record what a server was asked since the last time, if anything."""
        if spent := self.spent():
            self.writer.append(spent)

    def _append(self, records: Sequence[Replied]) -> None:
        self.writer.append(records)
        for record in records:
            self._note(record)

    def _note(self, record: Replied) -> None:
        self._done.add((record.batch, record.case, record.phase, record.style))
        self.failures += _failures(record.replies.values())

    def _count(self, reply: Reply) -> None:
        """A prompt that is too long, or refused, says nothing of the machine: a run of them is a result."""
        if isinstance(reply, Failure) and not reply.unscored:
            self.reasons[" ".join(f"{reply.error}: {reply.message}".split())[:REASON]] += 1
        if isinstance(reply, Failure) and not (reply.unscored or reply.particular):
            self._streak = self._streak + 1 if reply == self._last else 1
            self._last = reply
        else:
            self._streak, self._last = 0, None


def _failures(replies: Iterable[Reply]) -> int:
    return sum(isinstance(reply, Failure) and not reply.unscored for reply in replies)


def _finite(reply: Reply) -> Reply:
    """A log-probability that is no number is no measurement: it fails instead of vanishing in a mean."""
    if isinstance(reply, Scored) and not all(map(math.isfinite, reply.logprobs)):
        return Failure(error="NotFinite", message=f"log-probabilities {reply.logprobs}")
    return reply


def _too_many(reply: Reply) -> TooManyFailures:
    assert isinstance(reply, Failure)
    return TooManyFailures(
        f"the same failure {LIMIT} times in a row: {reply.error}: {' '.join(reply.message.split())}",
        hint="mend the cause and start the same run again: what is recorded stays",
    )
