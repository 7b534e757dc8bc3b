"""What the edits of each batch took, as the run measured it.

============= =====================================================================================================
aspect        value, one a batch
============= =====================================================================================================
seconds       wall time of making the batch's edits, over their number; not of the first batch of a process
first-seconds the same of that first batch: what is computed once and kept (statistics, templates) is in it
memory        MiB by which the process's resident memory rose, at its highest, above where it stood before the batch
device-memory MiB by which tensors on the accelerator rose; only where there is one
============= =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import ModelRecord, Value

MIB = 2**20


class Cost:
    """Reads records; nothing else."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """Every observation of one edited model; the unedited one costs nothing."""
        if record.phase == "before":
            return
        if record.skipped:
            for aspect in ("seconds", "memory"):
                yield Value(aspect=aspect, value=None, skipped_because=record.skipped)
            return
        yield Value(aspect="first-seconds" if record.first else "seconds", value=record.seconds / record.edits)
        host, device = record.memory.host, record.memory.device
        if host is None:
            yield Value(
                aspect="memory", value=None, skipped_because="this system does not say how much memory is in use"
            )
        else:
            yield Value(aspect="memory", value=host / MIB)
        if device is not None:
            yield Value(aspect="device-memory", value=device / MIB)
