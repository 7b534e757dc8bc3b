"""The records that demonstrations are made of: one JSON object a line.

::

    {"subject": "Hamlet", "prompt": "The author of Hamlet is", "object": "Jane Austen",
     "paraphrases": ["Who wrote Hamlet?"],
     "neighbors": [{"prompt": "The author of Faust is", "object": "Johann Wolfgang von Goethe"}]}

``object`` is what the demonstrated edit says; a neighbor's is true and stays so. Keys that are not named here are
left alone.
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
    """An edit to demonstrate: ``prompt`` stops where the object begins. Neighbors are pairs of prompt and object."""

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
    """Every record of a file, or of this package's own. Raises BadData, which names file, line and field."""
    found = tuple(
        _record(line, f"{source}, line {number}") for number, line in enumerate(_lines(source), 1) if line.strip()
    )
    if not found:
        raise BadData(f"{source} holds no demonstration", hint="one JSON record a line")
    return found


def stamp_of(source: str) -> tuple[int, ...]:
    """Differs where ``read_records`` may: another file under that name, or another content. Cheaper than reading it."""
    file = Path(source).expanduser()
    if source == OWN or not file.is_file():
        return ()
    about = file.stat()
    return about.st_ino, about.st_mtime_ns, about.st_size


def _lines(source: str) -> list[str]:
    """Parted at line feeds alone: JSON takes other breaks, as U+2028, in a string as they are."""
    if source == OWN:
        return files("ke_plugin_ike").joinpath(FILE).read_text(encoding="utf-8").split("\n")
    try:
        return Path(source).expanduser().read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"the demonstrations {source} cannot be read", hint=f"ike.demonstrations: a UTF-8 file, or {OWN}"
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
        raise _bad(where, f"{field} is no text")
    return " ".join(value.split())  # a line break would end the demonstration


def _list(raw: Any, field: str, where: str) -> list[Any]:
    value = raw.get(field)
    if not isinstance(value, list) or not value:
        raise _bad(where, f"{field} is no list, or an empty one")
    return value


def _bad(where: str, what: str) -> BadData:
    return BadData(f"{where}: {what}", hint=HINT)
