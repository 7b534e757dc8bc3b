"""Read the records of a published JSON file, and structure them strictly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from attrs import has
from cattrs import BaseValidationError, ForbiddenExtraKeysError, transform_error

from ke_benchmarks.files.strict import UNKNOWN, explain, strict_converter
from ke_core.plugin import BadData, KEWarning, noun, parse_json

T = TypeVar("T")


def json_values(
    path: Path, *, lines: bool = False, unpack: Callable[[dict[str, Any]], list[Any]] | None = None, nan: bool = False
) -> list[Any]:
    """Return the items of the JSON list in ``path``; with ``lines`` also of a file with one JSON object per line.

    ``unpack``: returns the items of a file that is a JSON object; it may raise TypeError or ValueError.
    ``nan``: read NaN as null. Raises BadData for a file that is missing, truncated, not JSON in UTF-8, or contains
    something else.
    """
    hint = again(path)
    try:
        content = path.read_bytes()
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {wrong.strerror}", hint="check the file and its permissions") from wrong
    if lines and content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        rows = enumerate(content.split(b"\n"), start=1)
        return [parse_json(row, f"{path}, line {number}", hint=hint) for number, row in rows if row.strip()]
    values = parse_json(content, path, hint=hint, nan=nan)
    if unpack is not None and isinstance(values, dict):
        try:
            values = unpack(values)
        except (TypeError, ValueError) as wrong:
            raise BadData(f"{path}: {wrong}", hint=hint) from wrong
    if not isinstance(values, list):
        raise BadData(f"{path} contains {noun(values)}, not a list of cases", hint=hint)
    return values


def again(path: Path) -> str:
    """Return the advice for an invalid file."""
    return f"fix {path.name}, or get it again from where it is published"


def read_records(
    path: Path,
    into: type[T],
    *,
    key: str = "case_id",
    lines: bool = False,
    unpack: Callable[[dict[str, Any]], list[Any]] | None = None,
    prepare: Callable[[Any], Any] = lambda item: item,
    nan: bool = False,
) -> Iterator[T]:
    """Yield every record of the file as an ``into``, in order.

    ``key``: the field that identifies a record and must be unique; empty if records have none. ``lines``: the file may
    also have one record per line. ``unpack`` and ``nan``: see ``json_values``. ``prepare``: brings the layouts of a
    record into one; it may raise TypeError or ValueError. Raises BadData with file, record and field.
    """
    quick = strict_converter(detailed=False)
    seen: set[Any] = set()
    items = json_values(path, lines=lines, unpack=unpack, nan=nan)
    if not items:
        raise BadData(f"{path} contains no case", hint=again(path))
    for index, raw in enumerate(items, start=1):
        try:
            item = prepare(raw)
        except (TypeError, ValueError) as wrong:
            raise BadData(f"{path}, {_name(raw, into, key, index)}: {wrong}", hint=again(path)) from wrong
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


def usable_records(records: Iterable[T], usable: Callable[[T], object], skipped: str) -> Iterator[T]:
    """Yield the usable records. At the end, warn how many were not; ``skipped`` is the message without the number."""
    count = 0
    for record in records:
        if usable(record):
            yield record
        else:
            count += 1
    warn_skipped(skipped, count)


def warn_skipped(message: str, count: int) -> None:
    """Warn with ``message`` and the ``count`` of skipped parts of a dataset, unless it is 0."""
    if count:
        warnings.warn(f"{message}: {count}", KEWarning, stacklevel=2)


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
    """Return the first problem of a record, and how many more there are. ``extra``: allow unknown fields.

    An unknown field, often a misspelled one, comes before missing fields.
    """
    try:
        strict_converter(detailed=True, extra=extra).structure(item, into)
    except (BaseValidationError, KeyError, TypeError, ValueError) as wrong:
        problems = [line.rpartition(" @ ") for line in transform_error(wrong, "", explain)]
        what, _at, where = min(problems, key=lambda one: UNKNOWN not in one[0])
        first = ": ".join(part for part in (where.lstrip("."), what) if part)
        return first + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    return "does not fit"
