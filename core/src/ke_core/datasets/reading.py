"""A published file to records, or one line that names file, record and field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from attrs import has
from cattrs import BaseValidationError, ForbiddenExtraKeysError, transform_error

from ke_core.data.strict import explain, strict_converter
from ke_core.datasets.stream import again, json_values
from ke_core.errors import BadData

T = TypeVar("T")


def read_records(path: Path, into: type[T], *, key: str = "case_id", lines: bool = False) -> Iterator[T]:
    """Every record of the file as an ``into``, in order, read as they are asked for.

    ``key`` is the field that names a record and may not occur twice; empty where records have no name. ``lines``: the
    file may also hold one record a line. Raises BadData, which names file, record and field.
    """
    quick = strict_converter(detailed=False)
    seen: set[Any] = set()
    index = 0
    for index, item in enumerate(json_values(path, lines=lines), start=1):
        try:
            record = quick.structure(item, into)
        except (KeyError, TypeError, ValueError) as wrong:
            raise BadData(
                f"{path}, {_name(item, into, key, index)}: {_problem(item, into)}", hint=again(path)
            ) from wrong
        if key:
            if item[key] in seen:
                raise BadData(f"{path}, record {index}: {key}: {item[key]} occurs twice", hint=again(path))
            seen.add(item[key])
        yield record
    if not index:
        raise BadData(f"{path} holds no case", hint=again(path))


def _name(item: Any, into: type[Any], key: str, index: int) -> str:
    """The record's own name where that at least is right, else its place in the file."""
    case = item.get(key) if isinstance(item, dict) else None
    usable = has(into) and type(case) is get_type_hints(into).get(key) and str(case).strip()
    return f"case {case}" if usable else f"record {index}"


def structure_record(item: Any, into: type[T], *, where: str, hint: str) -> T:
    """A JSON value as an ``into``, which knows all its fields. Raises BadData: ``where``, the field, what is wrong."""
    try:
        return strict_converter(detailed=False, extra=False).structure(item, into)
    except (ForbiddenExtraKeysError, KeyError, TypeError, ValueError) as wrong:
        raise BadData(f"{where}: {_problem(item, into, extra=False)}", hint=hint) from wrong


def _problem(item: Any, into: type[Any], *, extra: bool = True) -> str:
    """The first thing wrong with a record, and how many more there are."""
    try:
        strict_converter(detailed=True, extra=extra).structure(item, into)
    except (BaseValidationError, KeyError, TypeError, ValueError) as wrong:
        problems = [line.rpartition(" @ ") for line in transform_error(wrong, "", explain)]
        first = ": ".join(part for part in (problems[0][2].lstrip("."), problems[0][0]) if part)
        return first + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    return "does not fit"
