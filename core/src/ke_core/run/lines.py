"""JSON lines (or one JSON list) read record by record, with errors that name file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.data.reading import parse_json, parse_object
from ke_core.errors import BadData

HINT = "one JSON object a line"


@frozen(kw_only=True)
class SourceLine:
    """Where a record stands."""

    file: str
    line: int = 0
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}" if self.line else self.file

    def wrong(self, field: str, what: str, *, hint: str = "") -> BadData:
        """The error that says what is wrong with a field here."""
        return BadData(f"{self}: {field} {what}", hint=hint)


def read_lines(path: Path) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """The records of a file in order: one JSON object a line, or one list of them. Raises BadData."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise BadData(f"cannot read {path}: {why}", hint="a file of JSON lines in UTF-8") from error
    yield from parse_lines(text, of=str(path))


def parse_lines(text: str, *, of: str) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """The records of a text, the content of a file called ``of``. Raises BadData."""
    if text.lstrip().startswith("["):
        listed = parse_json(text, of, hint=HINT)
        for number, raw in enumerate(listed, start=1):
            place = SourceLine(file=of, line=number, unit="record")
            yield _object(raw, place), place
        return
    for number, line in enumerate(text.split("\n"), start=1):  # no other mark: JSON takes U+2028 in a string as it is
        if line.strip():
            place = SourceLine(file=of, line=number)
            yield parse_object(line, str(place), hint=HINT), place


def text_field(raw: Mapping[str, Any], name: str, place: SourceLine, *, needed: bool = False) -> str:
    """A text (or a whole number, as ids are), stripped; empty where it is absent and not needed."""
    value = raw.get(name)
    if value is None:
        if needed:
            raise place.wrong(name, "is missing or empty")
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise place.wrong(name, f"is {json.dumps(value)[:60]}, not a text")
    text = str(value).strip()
    if needed and not text:
        raise place.wrong(name, "is missing or empty")
    return text


def texts_field(raw: Mapping[str, Any], name: str, place: SourceLine) -> tuple[str, ...]:
    """One text, or a list of texts, none of them empty."""
    value = raw.get(name)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(text_field({name: one}, name, place, needed=True) for one in listed)


def _object(raw: Any, place: SourceLine) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise BadData(f"{place} is not a JSON object", hint=HINT)
    return raw
