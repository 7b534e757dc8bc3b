"""The cost of applying each batch of edits and of answering, as measured by the run.

==================== ==============================================================================================
aspect               value, one for each batch
==================== ==============================================================================================
seconds              wall time of applying the batch divided by its number of edits; not for the first batch of a
                     process
first-seconds        the same for that first batch; includes what is computed once and cached (statistics, templates)
forward-calls,       forward calls of the model while the edits were applied, and their tokens, divided by the
tokens               number of edits; not for the first batch
first-forward-calls, the same for the first batch
first-tokens
memory               maximum increase of the process's resident memory over its value before the batch, in MiB
device-memory        maximum increase of tensor memory on the accelerator, in MiB, if there is one
answer-memory        maximum increase of resident memory while questions were answered together, in MiB
answer-device-memory the same for tensor memory on the accelerator, if there is one
==================== ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import ModelRecord, Peak, Value

MIB = 2**20
SILENT = "this system does not report memory usage"
ELSEWHERE = "forward calls were not counted: the model runs elsewhere, or the record is older"
UNMEASURED = "not recorded: no requests, an older record, or a system that does not report it"


class CostMetric:
    """Computes values from records."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """Yield every observation of one edited model; the unedited one has no cost."""
        if record.phase == "before":
            return
        if record.skipped:
            for aspect in ("seconds", "forward-calls", "tokens", "memory", "answer-memory"):
                yield Value(aspect=aspect, value=None, skipped_because=record.skipped)
            return
        first = "first-" if record.first else ""
        yield Value(aspect=f"{first}seconds", value=record.seconds / record.edits)
        yield from _run(record, first)
        yield from _memory("", record.memory, SILENT)
        yield from _memory("answer-", record.answering, UNMEASURED)


def _run(record: ModelRecord, first: str) -> Iterator[Value]:
    made = record.passes
    for aspect in ("forward-calls", "tokens"):
        value = None if made is None else {"forward-calls": made.passes, "tokens": made.tokens}[aspect] / record.edits
        yield Value(aspect=first + aspect, value=value, skipped_because=ELSEWHERE if value is None else "")


def _memory(what: str, rise: Peak, why: str) -> Iterator[Value]:
    host = None if rise.host is None else rise.host / MIB
    yield Value(aspect=f"{what}memory", value=host, skipped_because=why if host is None else "")
    if rise.device is not None:
        yield Value(aspect=f"{what}device-memory", value=rise.device / MIB)
