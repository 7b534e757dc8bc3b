"""Read the JSON values of a file one by one, with only one of them in memory.

A streaming decoder on top of ``json.JSONDecoder.raw_decode``: the text is read in chunks, and a value that does not end
in the current text is tried again with twice as much. It needs no other package, is as fast as ``json``, and reports
line and column as ``json`` does (ijson is slower by a factor of three or more and returns Decimals).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_type_hints

from attrs import has
from cattrs import BaseValidationError, ForbiddenExtraKeysError, transform_error

from ke_benchmarks.files.strict import explain, strict_converter
from ke_core.plugin import DECODER, TOO_DEEPLY_NESTED, BadData, check_parsed, error_line, noun

PIECE = 1 << 16
SPACE = re.compile(r"[ \t\r\n]*")
TAIL = 16  # characters: no literal, number's sign or escape of JSON is longer


def json_values(path: Path, *, lines: bool = False) -> Iterator[Any]:
    """Yield the items of the JSON list in ``path``; with ``lines`` also of a file with one JSON value per line.

    Raises BadData for a file that is missing, truncated, not JSON in UTF-8, or contains something else.
    """
    try:
        with path.open("rb") as stream:
            tape = JsonStreamReader(stream)
            try:
                yield from _items(tape, path, lines=lines)
            except ValueError as wrong:  # UnicodeError and JSONDecodeError are ValueErrors
                raise _unreadable(path, tape.place(wrong), _last(stream)) from wrong
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {wrong.strerror}", hint="check the file and its permissions") from wrong


class JsonStreamReader:
    """The buffered text of a file: unread text from ``at`` on, and its position in the file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self.text = ""
        self.at = 0
        self._ended = False
        self._line, self._column = 1, 1  # position of the text's first character

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            self.at = _end_of_space(self.text, self.at)
            if self.at < len(self.text) or self._ended:
                return self.text[self.at : self.at + 1]
            self._read()

    def take(self, expected: str) -> str:
        """Consume the next character, which must be one of ``expected``."""
        found = self.peek()
        if not found or found not in expected:
            raise json.JSONDecodeError(f"Expecting one of {expected}", self.text, self.at)
        self.at += 1
        return found

    def value(self) -> Any:
        """Return the next JSON value. Raises ValueError (JSONDecodeError) if there is none."""
        self.peek()  # the decoder does not skip white space
        while True:
            try:
                found, end = DECODER.raw_decode(self.text, self.at)
            except RecursionError as wrong:
                raise ValueError(TOO_DEEPLY_NESTED) from wrong
            except json.JSONDecodeError as wrong:
                if self._ended or not self._unfinished(wrong):
                    raise
            else:
                if self._ended or end < len(self.text) - TAIL or self.text[end - 1] in '"]}':  # a number may continue
                    check_parsed(found, self.text[self.at : end])
                    self.at = end
                    return found
            self._read()

    def place(self, wrong: ValueError) -> str:
        """Return line and column of a JSON error, or of the value that caused another error, and the reason."""
        if not isinstance(wrong, json.JSONDecodeError):
            line, column = self._moved(self.at)
            return f"line {line}, column {column}: {error_line(wrong)}"
        line, column = self._moved(wrong.pos)
        return f"line {line}, column {column}"

    def _unfinished(self, wrong: json.JSONDecodeError) -> bool:
        """Return whether more text could make it valid, so that a damaged record does not read the whole file."""
        return wrong.msg.startswith("Unterminated string") or wrong.pos >= len(self.text) - TAIL

    def _read(self) -> None:
        """Drop consumed text and double the rest, so that a long value is tried a few times only."""
        self._line, self._column = self._moved(self.at)
        waiting = self.text[self.at :]
        data = self._stream.read(max(PIECE, len(waiting)))
        self._ended = not data
        self.text, self.at = waiting + self._decode(data, final=self._ended), 0

    def _moved(self, to: int) -> tuple[int, int]:
        newlines = self.text.count("\n", 0, to)
        start = self.text.rfind("\n", 0, to) + 1
        return self._line + newlines, to - start + 1 if newlines else self._column + to


def _items(tape: JsonStreamReader, path: Path, *, lines: bool) -> Iterator[Any]:
    first = tape.peek()
    if lines and first == "{":
        while tape.peek():
            yield tape.value()
        return
    if first != "[":
        held = "an object" if first == "{" else noun(tape.value())
        raise BadData(f"{path} contains {held}, not a list of cases", hint=again(path))
    tape.take("[")
    if tape.peek() == "]":
        tape.take("]")
    else:
        yield tape.value()
        while tape.take(",]") == ",":
            yield tape.value()
    if tape.peek():
        raise json.JSONDecodeError("Extra data", tape.text, tape.at)


def again(path: Path) -> str:
    """Return the advice for an invalid file."""
    return f"fix {path.name}, or get it again from where it is published"


def _unreadable(path: Path, where: str, last: bytes) -> BadData:
    cut = last not in (b"]", b"}")
    return BadData(
        f"{path} is {'cut off' if cut else 'not JSON'} ({where})",
        hint=f"get {path.name} again from where it is published",
    )


def _last(stream: BinaryIO) -> bytes:
    """Return the file's last byte that is not white space."""
    stream.seek(-min(PIECE, stream.seek(0, 2)), 2)
    return stream.read().rstrip()[-1:]


def _end_of_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


T = TypeVar("T")


def read_records(path: Path, into: type[T], *, key: str = "case_id", lines: bool = False) -> Iterator[T]:
    """Yield every record of the file as an ``into``, in order, as they are requested.

    ``key``: the field that identifies a record and must be unique; empty if records have none. ``lines``: the file may
    also have one record per line. Raises BadData with file, record and field.
    """
    quick = strict_converter(detailed=False)
    seen: set[Any] = set()
    index = 0
    for index, item in enumerate(json_values(path, lines=lines), start=1):
        try:
            record = quick.structure(item, into)
        except (KeyError, TypeError, ValueError) as wrong:
            where = f"{path}, {_name(item, into, key, index)}"
            raise BadData(f"{where}: {_problem(item, into, extra=True)}", hint=again(path)) from wrong
        if key:
            if item[key] in seen:
                raise BadData(f"{path}, record {index}: {key}: {item[key]} occurs twice", hint=again(path))
            seen.add(item[key])
        yield record
    if not index:
        raise BadData(f"{path} contains no case", hint=again(path))


def _name(item: Any, into: type[Any], key: str, index: int) -> str:
    """Return the record's own id if it is valid, otherwise its position in the file."""
    case = item.get(key) if isinstance(item, dict) else None
    usable = has(into) and type(case) is get_type_hints(into).get(key) and str(case).strip()
    return f"case {case}" if usable else f"record {index}"


def structure_record(item: Any, into: type[T], *, where: str, hint: str) -> T:
    """Convert a JSON value to an ``into``. Raises BadData with ``where``, field and problem."""
    try:
        return strict_converter(detailed=False, extra=False).structure(item, into)
    except (ForbiddenExtraKeysError, KeyError, TypeError, ValueError) as wrong:
        raise BadData(f"{where}: {_problem(item, into, extra=False)}", hint=hint) from wrong


def _problem(item: Any, into: type[Any], *, extra: bool) -> str:
    """Return the first problem of a record, and how many more there are. ``extra``: allow unknown fields."""
    try:
        strict_converter(detailed=True, extra=extra).structure(item, into)
    except (BaseValidationError, KeyError, TypeError, ValueError) as wrong:
        problems = [line.rpartition(" @ ") for line in transform_error(wrong, "", explain)]
        first = ": ".join(part for part in (problems[0][2].lstrip("."), problems[0][0]) if part)
        return first + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    return "does not fit"
