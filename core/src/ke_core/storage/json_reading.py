"""Parse JSON and TOML texts strictly: files, lines of files, answers of servers.

Python's own parsers accept more than ke can process. They raise RecursionError for deep nesting, and they accept NaN,
numbers that overflow to infinity, and escapes for half of a surrogate pair, which fail later, wherever the value is
written, hashed or given to a tokenizer. This module turns all of these into one error that names the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from attrs import frozen

from ke_core.spec.errors import BadData, KEError

DEPTH = 100
"""The maximum nesting. A fixed limit does not depend on the depth of the stack, as RecursionError does."""
TOO_DEEPLY_NESTED = f"it is nested more than {DEPTH} levels deep"


def loads(text: str | bytes, *, surrogates: bool = False, nan: bool = False) -> Any:
    """Parse one JSON value. Raises ValueError (JSONDecodeError, UnicodeError) for anything else.

    ``surrogates``: accept escapes for half of a surrogate pair. Only files that ke itself writes contain them, because
    a model may generate one. ``nan``: read NaN as None; pandas writes missing values so.
    """
    content = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    try:
        value = (NAN_DECODER if nan else DECODER).decode(content)
    except RecursionError as error:
        raise ValueError(TOO_DEEPLY_NESTED) from error
    if content.count("[") + content.count("{") > DEPTH and _too_deep(value):
        raise ValueError(TOO_DEEPLY_NESTED)
    if not surrogates and ("\\ud" in content or "\\uD" in content):
        json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError
    return value


def parse_json(
    content: str | bytes,
    of: str | Path,
    *,
    error: Callable[..., KEError] = BadData,
    hint: str = "",
    surrogates: bool = False,
    nan: bool = False,
) -> Any:
    """Parse one JSON value. Raises ``error``, which names ``of`` (a file, or a line of one), for anything else."""
    try:
        return loads(content, surrogates=surrogates, nan=nan)
    except ValueError as wrong:
        raise error(f"{of} {problem(wrong)}", hint=hint) from wrong


def parse_object(
    content: str | bytes, of: str | Path, *, error: Callable[..., KEError] = BadData, hint: str = ""
) -> dict[str, Any]:
    """Parse one JSON object. Raises ``error`` as ``parse_json`` does."""
    return _object(parse_json(content, of, error=error, hint=hint), of, error, hint)


def read_json(path: Path, *, error: Callable[..., KEError] = BadData, hint: str = "") -> Any:
    """Parse a JSON file. Raises ``error``, which names the file, if it cannot be read or is not JSON."""
    return parse_json(_content(path, error, hint), path, error=error, hint=hint)


def read_object(path: Path, *, error: Callable[..., KEError] = BadData, hint: str = "") -> dict[str, Any]:
    """Parse a JSON file that holds one object. Raises ``error`` as ``read_json`` does."""
    return parse_object(_content(path, error, hint), path, error=error, hint=hint)


def parse_toml(
    content: str | bytes, of: str | Path, *, error: Callable[..., KEError] = BadData, hint: str = ""
) -> dict[str, Any]:
    """Parse a TOML text. Raises ``error``, which names ``of``, for anything else."""
    import tomllib  # noqa: PLC0415  most commands read no TOML

    try:
        value = tomllib.loads(content.decode("utf-8-sig") if isinstance(content, bytes) else content)
        if _too_deep(value):
            raise ValueError(TOO_DEEPLY_NESTED)  # noqa: TRY301  caught with what the parser raises
    except (ValueError, RecursionError) as wrong:
        reason = TOO_DEEPLY_NESTED if isinstance(wrong, RecursionError) else error_line(wrong)
        raise error(f"{of} is not TOML: {reason}", hint=hint) from wrong
    return value


def read_toml(path: Path, *, error: Callable[..., KEError] = BadData, hint: str = "") -> dict[str, Any]:
    """Parse a TOML file. Raises ``error``, which names the file, if it cannot be read or is not TOML."""
    return parse_toml(_content(path, error, hint), path, error=error, hint=hint)


def problem(error: ValueError) -> str:
    """Return the error of ``loads`` as the rest of a sentence that begins with the name of the text."""
    if isinstance(error, json.JSONDecodeError):
        if not error.doc.strip():
            return "is empty"
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            return f"is cut off ({_place(error)})"
    return f"is not JSON: {error_line(error)}"


def error_line(error: ValueError) -> str:
    """Return the reason in one line, with line and column where they are known."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} ({_place(error)})"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not valid UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return f"it holds half of a surrogate pair, {error.object[error.start]!a}"
    return " ".join(str(error).split())


def _place(error: json.JSONDecodeError) -> str:
    """Return the position of the error. A text of one line may be a line of a file, so the line number is omitted."""
    text = error.doc.rstrip()
    at = min(error.pos, len(text))
    column = at - text.rfind("\n", 0, at)
    return f"line {text.count(chr(10), 0, at) + 1}, column {column}" if "\n" in text else f"column {column}"


def _content(path: Path, error: Callable[..., KEError], hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as wrong:
        raise error(f"cannot read {path}: {(wrong.strerror or str(wrong)).lower()}", hint=hint) from wrong


def _too_deep(value: Any) -> bool:
    level = [value]
    for _depth in range(DEPTH):
        inner = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in inner if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:30]} is too large a number")
    return number


def _none_for_nan(name: str) -> None:
    if name != "NaN":
        _refuse_constant(name)


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
NAN_DECODER = json.JSONDecoder(parse_constant=_none_for_nan, parse_float=_finite)

HINT = "one JSON object a line"


@frozen(kw_only=True)
class SourceLine:
    """The location of a record."""

    file: str
    line: int = 0
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}" if self.line else self.file

    def wrong(self, field: str, what: str, *, hint: str = "") -> BadData:
        """Return an error about a field of this record."""
        return BadData(f"{self}: {field} {what}", hint=hint)


def read_lines(path: Path) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """Yield the records of a file: one JSON object per line, or one list of objects. Raises BadData."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise BadData(f"cannot read {path}: {why}", hint="a file of JSON lines in UTF-8") from error
    yield from parse_lines(text, of=str(path))


def parse_lines(text: str, *, of: str) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """Yield the records of a text, the content of the file ``of``. Raises BadData."""
    if text.lstrip().startswith("["):
        listed = parse_json(text, of, hint=HINT)
        for number, raw in enumerate(listed, start=1):
            place = SourceLine(file=of, line=number, unit="record")
            yield _object(raw, place, BadData, HINT), place
        return
    for number, line in enumerate(text.split("\n"), start=1):  # only line feeds: JSON allows U+2028 in strings
        if line.strip():
            place = SourceLine(file=of, line=number)
            yield parse_object(line, str(place), hint=HINT), place


def text_field(raw: Mapping[str, Any], name: str, place: SourceLine, *, needed: bool = False) -> str:
    """Return a text (or a whole number, such as an id), stripped. Empty if it is missing and not needed."""
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise place.wrong(name, f"is {json.dumps(value)[:60]}, not a text")
    text = "" if value is None else str(value).strip()
    if needed and not text:
        raise place.wrong(name, "is missing or empty")
    return text


def texts_field(raw: Mapping[str, Any], name: str, place: SourceLine) -> tuple[str, ...]:
    """Return a text or a list of texts, without empty ones."""
    value = raw.get(name)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(text_field({name: one}, name, place, needed=True) for one in listed)


def _object(value: Any, of: object, error: Callable[..., KEError], hint: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise error(f"{of} is not a JSON object", hint=hint)
    return value
