"""The records of demonstrations: one JSON object per line.

::

    {"subject": "Hamlet", "prompt": "The author of Hamlet is", "object": "Jane Austen",
     "paraphrases": ["Who wrote Hamlet?"],
     "neighbors": [{"prompt": "The author of Faust is", "object": "Johann Wolfgang von Goethe"}]}

``object`` is the object of the demonstrated edit. A neighbor's object is true and does not change. Other keys are
ignored.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.plugin import BadData, parse_json

OWN = "own"
FILE = "demonstrations.jsonl"
HINT = "see the README of ke-plugin-ike for the format"


@frozen(kw_only=True)
class IkeRecord:
    """An edit to demonstrate: ``prompt`` ends before the object. Neighbors are pairs of prompt and object."""

    subject: str
    prompt: str
    object: str
    paraphrases: tuple[str, ...]
    neighbors: tuple[tuple[str, str], ...]

    @property
    def fact(self) -> str:
        """The edit as a sentence."""
        return f"{self.prompt} {self.object}"


def read_records(source: str) -> tuple[IkeRecord, ...]:
    """Return the records of a file, or of this package. Raises BadData with file, line and field."""
    found = tuple(
        _record(line, f"{source}, line {number}") for number, line in enumerate(_lines(source), 1) if line.strip()
    )
    if not found:
        raise BadData(f"{source} has no demonstrations", hint="write one JSON record per line")
    return found


def stamp_of(source: str) -> tuple[int, ...]:
    """Return a value that changes with the file or its content, without reading it."""
    file = Path(source).expanduser()
    if source == OWN or not file.is_file():
        return ()
    about = file.stat()
    return about.st_ino, about.st_mtime_ns, about.st_size


def _lines(source: str) -> list[str]:
    """Split at line feeds only: JSON strings may contain other line breaks, such as U+2028."""
    if source == OWN:
        return files("ke_plugin_ike").joinpath(FILE).read_text(encoding="utf-8").split("\n")
    try:
        return Path(source).expanduser().read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"the demonstrations {source} cannot be read", hint=f"set ike.demonstrations to a UTF-8 file, or to {OWN}"
        ) from error


def _record(line: str, where: str) -> IkeRecord:
    raw = parse_json(line, where, hint=HINT)
    return IkeRecord(
        subject=_text(raw, "subject", where),
        prompt=_text(raw, "prompt", where),
        object=_text(raw, "object", where),
        paraphrases=tuple(
            _text({"paraphrases": text}, "paraphrases", where) for text in _list(raw, "paraphrases", where)
        ),
        neighbors=tuple(
            (_text(each, "prompt", f"{where}, neighbors"), _text(each, "object", f"{where}, neighbors"))
            for each in _list(raw, "neighbors", where)
        ),
    )


def _text(raw: Any, field: str, where: str) -> str:
    value = raw.get(field) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise _bad(where, f"{field} is not a non-empty string")
    return " ".join(value.split())  # a line break would end the demonstration


def _list(raw: Any, field: str, where: str) -> list[Any]:
    value = raw.get(field)
    if not isinstance(value, list) or not value:
        raise _bad(where, f"{field} is not a non-empty list")
    return value


def _bad(where: str, what: str) -> BadData:
    return BadData(f"{where}: {what}", hint=HINT)
