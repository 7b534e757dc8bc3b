"""``log.jsonl`` in a run folder: what happened when, a flat line an event, for people who ask why.

Nothing is computed from it: the records are the evidence. So it is not synced to the disk line by line, and a line that
cannot be written is let go: the run goes on, or fails where its records cannot be written either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ke_core.data.reading import loads
from ke_core.results.lines import to_bytes, whole_lines

LOG = "log.jsonl"
TEXTS = ("at", "event")
NUMBERS = ("count", "cpu_seconds", "edit_seconds", "edits", "seconds")
PEAKS = ("peak_device_bytes", "peak_host_bytes")
"""Fields of an event that reports compute with. A line may lack any of them; a peak may be null."""


def write_log(path: Path, event: str, **facts: Any) -> None:
    """Append an event with its ``facts`` (JSON values): when it was (UTC), and in which process.

    One write of one line, so that two processes do not mix theirs.
    """
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = to_bytes({"at": stamp, "event": event, "process": os.getpid(), **facts})
    with suppress(OSError), path.open("ab", buffering=0) as stream:
        stream.write(line)


def read_log(path: Path) -> Iterator[Mapping[str, Any]]:
    """Return the events, oldest first. Lines that are truncated or have other types than ke writes are skipped."""
    for _number, line in whole_lines(path):
        with suppress(ValueError):
            found = loads(line, surrogates=True)
            if isinstance(found, dict) and _fits(found):
                yield found


def _fits(line: Mapping[str, Any]) -> bool:
    texts = all(isinstance(line.get(name), str) for name in TEXTS)
    numbers = all(type(line[name]) in (int, float) for name in NUMBERS if name in line)
    return texts and numbers and all(type(line.get(name)) in (int, type(None)) for name in PEAKS)
