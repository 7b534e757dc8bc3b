"""One record, one line of JSON: tagged, canonical, without secrets; and back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ke_core.data.codec import canonical, from_json, tag_of, to_json
from ke_core.data.reading import parse_json
from ke_core.data.records import Batch, Judged, Probed, Record, Replied, Spent
from ke_core.data.runspec import SCHEMA
from ke_core.errors import BadConfig, BadRun, PluginBroken

KINDS: Mapping[str, type[Record]] = {tag_of(cls): cls for cls in (Batch, Replied, Judged, Probed, Spent)}
SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|CREDENTIALS|(^|_)KEY)$", re.IGNORECASE)
SHORTEST = 8  # a shorter value is a switch, not a secret, and could stand in any text


def to_line(record: Record) -> bytes:
    """The record as UTF-8 with its line end. Raises PluginBroken for what JSON cannot hold (NaN, objects)."""
    return to_bytes({"kind": tag_of(type(record)), **to_json(record)})


def to_bytes(raw: Any) -> bytes:
    """Canonical JSON with a line end.

    A lone surrogate, which UTF-8 has no bytes for, is written as JSON's own escape. The value of an
    environment variable that is named like a secret is blacked out: libraries quote them in error messages.
    """
    try:
        text = canonical(raw)
    except (TypeError, ValueError) as error:
        raise PluginBroken(
            f"a plugin returned what a record cannot hold: {error}", hint="numbers, texts, lists and mappings of them"
        ) from error
    for secret, name in _secrets().items():
        text = text.replace(secret, f"[{name}]")
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
    """The same as JSON, of a known kind and of this schema; its fields are as they stand."""
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


def refuse_secrets(raw: Any, *, of: str) -> None:
    """Raise BadConfig if ``raw`` holds the value of an environment variable that is named like a secret."""
    text = canonical(raw)
    for secret, name in _secrets().items():
        if secret in text:
            raise BadConfig(
                f"{of} would hold the value of the environment variable {name}",
                hint="leave it out of the options: whatever needs it reads the variable itself",
            )


@cache
def _secrets() -> Mapping[str, str]:
    """Value to variable, longest value first, so that one that begins like another is blacked out whole."""
    found = {
        canonical(value)[1:-1]: name  # as it stands inside a JSON string
        for name, value in os.environ.items()
        if SECRET.search(name) and len(value) >= SHORTEST
    }
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair)))
