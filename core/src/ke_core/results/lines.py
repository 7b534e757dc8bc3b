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
    """The record as UTF-8 with its line end. Raises PluginBroken for what JSON cannot hold (NaN, objects)."""
    return to_bytes({"kind": tag_of(type(record)), **to_json(record)})


def to_bytes(raw: Any) -> bytes:
    """Canonical JSON with a line end.

    A lone surrogate, which UTF-8 has no bytes for, is written as JSON's own escape. Secrets of the environment are
    replaced in string values.
    """
    try:
        text = canonical(redacted(raw))
    except (TypeError, ValueError) as error:
        raise PluginBroken(
            f"a plugin returned what a record cannot hold: {error}", hint="numbers, texts, lists and mappings of them"
        ) from error
    return text.encode("utf-8", "backslashreplace") + b"\n"


def whole_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a file that is only appended to. A torn last line (a killed process) is left out."""
    if file.exists():
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.endswith(b"\n"):
                    yield number, line


def from_line(line: bytes, *, of: str) -> Record:
    """The record in ``line``. Raises BadRun that says what is wrong with ``of``."""
    raw = json_line(line, of=of)
    found: Record = from_json(raw, KINDS[raw.pop("kind")], of=of, error=BadRun, hint=MEND)
    return found


def json_line(line: bytes, *, of: str) -> dict[str, Any]:
    """Parse a line as JSON of a known kind and of this schema, without converting its fields."""
    raw = parse_json(line, of, error=BadRun, hint=AGAIN, surrogates=True)
    if not isinstance(raw, dict) or not isinstance(kind := raw.get("kind"), str) or kind not in KINDS:
        raise BadRun(f"{of} is not a record", hint=MEND)
    refuse_other(raw.get("schema"), of=of)
    return raw


def refuse_other(schema: object, *, of: str) -> None:
    """Raise BadRun for what a newer or an older ke has written, or no ke at all. None: said elsewhere as missing."""
    if schema is None:
        return
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise BadRun(f"{of} has no schema number: {canonical(schema)[:60]}", hint=MEND)
    if schema > SCHEMA:
        raise BadRun(
            f"{of} was written by a newer ke (schema {schema}, this one reads {SCHEMA})",
            hint="pip install --upgrade ke-core",
        )
    if schema < SCHEMA:
        raise BadRun(
            f"{of} was written by an older ke (schema {schema}, this one reads {SCHEMA})",
            hint="read it with the ke-core that wrote it: run.json names its version",
        )


AGAIN = "start the same run again: a last line is set aside and asked again; of any other, take the file from a backup"
MEND = "records are only ever appended: take the file from a backup, or start again with another --out"


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
