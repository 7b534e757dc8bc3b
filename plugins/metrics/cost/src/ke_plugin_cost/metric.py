"""What the edits of each batch took, and their answers, as the run measured it.

==================== ==============================================================================================
aspect               value, one a batch
==================== ==============================================================================================
seconds              wall time of making the batch's edits, over their number; not of the first batch of a process
first-seconds        the same of that first batch: what is computed once and kept (statistics, templates) is in it
passes, tokens       how often the model was run forward while the edits were made, and over how many tokens, over
                     the number of edits; not of the first batch
first-passes,        the same of the first batch
first-tokens
memory               MiB by which the process's resident memory rose, at its highest, above where it stood before
                     the batch
device-memory        MiB by which tensors on the accelerator rose; only where there is one
answer-memory        MiB of resident memory by which it rose, at its highest, while questions were answered together
answer-device-memory the same of tensors on the accelerator; only where there is one
==================== ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import ModelRecord, Peak, Value

MIB = 2**20
SILENT = "this system does not say how much memory is in use"
ELSEWHERE = "nobody counted how often the model is run: it runs elsewhere, or the record is older"
UNMEASURED = "not on record: nothing was asked, the record is older, or this system does not say"


class CostMetric:
    """Reads records; nothing else."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """Every observation of one edited model; the unedited one costs nothing."""
        if record.phase == "before":
            return
        if record.skipped:
            for aspect in ("seconds", "passes", "tokens", "memory", "answer-memory"):
                yield Value(aspect=aspect, value=None, skipped_because=record.skipped)
            return
        first = "first-" if record.first else ""
        yield Value(aspect=f"{first}seconds", value=record.seconds / record.edits)
        yield from _run(record, first)
        yield from _memory("", record.memory, SILENT)
        yield from _memory("answer-", record.answering, UNMEASURED)


def _run(record: ModelRecord, first: str) -> Iterator[Value]:
    made = record.passes
    for aspect in ("passes", "tokens"):
        value = None if made is None else {"passes": made.passes, "tokens": made.tokens}[aspect] / record.edits
        yield Value(aspect=first + aspect, value=value, skipped_because=ELSEWHERE if value is None else "")


def _memory(what: str, rise: Peak, why: str) -> Iterator[Value]:
    host = None if rise.host is None else rise.host / MIB
    yield Value(aspect=f"{what}memory", value=host, skipped_because=why if host is None else "")
    if rise.device is not None:
        yield Value(aspect=f"{what}device-memory", value=rise.device / MIB)
