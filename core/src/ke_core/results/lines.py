"""Convert records to lines of JSON and back, without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ke_core.results.redaction import redacted
from ke_core.spec.codec import canonical, from_json, tag_of, to_json
from ke_core.spec.errors import BadRun, PluginBroken
from ke_core.spec.records import Batch, Judged, Probed, Record, Replied, Usage
from ke_core.spec.runspec import SCHEMA
from ke_core.storage.json_reading import loads, parse_json

KINDS: Mapping[str, type[Record]] = {tag_of(cls): cls for cls in (Batch, Replied, Judged, Probed, Usage)}


def to_line(record: Record) -> bytes:
    """Return the record as a line of UTF-8. Raises PluginBroken for values that JSON cannot hold (NaN, objects)."""
    return to_bytes({"kind": tag_of(type(record)), **to_json(record)})


def to_bytes(raw: Any) -> bytes:
    """Return canonical JSON with a line end. Secrets of the environment are replaced in string values.

    UTF-8 has no bytes for a lone surrogate, so it is written as an escape of JSON.
    """
    try:
        text = canonical(redacted(raw))
    except (TypeError, ValueError) as error:
        raise PluginBroken(
            f"a plugin returned a value that JSON cannot hold: {error}",
            hint="return numbers, texts, lists and mappings",
        ) from error
    return text.encode("utf-8", "backslashreplace") + b"\n"


def whole_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file. A truncated last line, left by a killed process, is skipped."""
    if file.exists():
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.endswith(b"\n"):
                    yield number, line


def from_line(line: bytes, *, of: str) -> Record:
    """Return the record in ``line``. Raises BadRun, which names ``of``."""
    raw = json_line(line, of=of)
    found: Record = from_json(raw, KINDS[raw.pop("kind")], of=of, error=BadRun, hint=RESTORE_HINT)
    return found


def json_line(line: bytes, *, of: str) -> dict[str, Any]:
    """Parse a line as JSON of a known kind and of this schema, without converting its fields."""
    raw = parse_json(line, of, error=BadRun, hint=AGAIN, surrogates=True)
    if not isinstance(raw, dict) or not isinstance(kind := raw.get("kind"), str) or kind not in KINDS:
        raise BadRun(f"{of} is not a record", hint=RESTORE_HINT)
    refuse_other(raw.get("schema"), of=of)
    return raw


def raw_line(line: bytes) -> Any:
    """Return the JSON value of a line. None if it is not JSON."""
    try:
        return loads(line, surrogates=True)
    except ValueError:
        return None


def refuse_other(schema: object, *, of: str) -> None:
    """Raise BadRun unless ``schema`` is the number of this ke. A missing one is reported with the other fields."""
    if schema is None:
        return
    if type(schema) is not int:
        raise BadRun(f"{of} has no schema number: {canonical(schema)[:60]}", hint=RESTORE_HINT)
    if schema != SCHEMA:
        age = "a newer" if schema > SCHEMA else "an older"
        raise BadRun(
            f"{of} was written by {age} ke (schema {schema}, this one reads {SCHEMA})",
            hint="install the ke-core that wrote it: run.json names its version",
        )


AGAIN = "start the same run again: it repeats a damaged last line; for any other line, restore the file from a backup"
RESTORE_HINT = "restore the file from a backup, or start again with another --out"


LOG = "log.jsonl"
TEXTS = ("at", "event")
NUMBERS = ("count", "cpu_seconds", "edit_seconds", "edits", "seconds")
PEAKS = ("peak_device_bytes", "peak_host_bytes")
"""Fields of an event that reports compute with. A line may lack any of them; a peak may be null."""


def write_log(path: Path, event: str, **facts: Any) -> None:
    """Append an event with its ``facts`` (JSON values), its time (UTC) and the id of its process.

    Each event is one write, so that the lines of two processes do not mix.
    """
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = to_bytes({"at": stamp, "event": event, "process": os.getpid(), **facts})
    with suppress(OSError), path.open("ab", buffering=0) as stream:
        stream.write(line)


def read_log(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events, oldest first. Truncated lines and lines with other types are skipped."""
    for _number, line in whole_lines(path):
        found = raw_line(line)
        if isinstance(found, dict) and _fits(found):
            yield found


def _fits(line: Mapping[str, Any]) -> bool:
    texts = all(isinstance(line.get(name), str) for name in TEXTS)
    numbers = all(type(line[name]) in (int, float) for name in NUMBERS if name in line)
    return texts and numbers and all(type(line.get(name)) in (int, type(None)) for name in PEAKS)
