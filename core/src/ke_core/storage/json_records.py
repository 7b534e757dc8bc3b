"""Turn JSON values into records, with errors that name the record and the field."""

from __future__ import annotations

from typing import Any, TypeVar

from cattrs import BaseValidationError, ForbiddenExtraKeysError, transform_error

from ke_core.spec.codec import explain, strict_converter
from ke_core.spec.errors import BadData

T = TypeVar("T")


def structure_record(item: Any, into: type[T], *, where: str, hint: str) -> T:
    """Convert a JSON value to an ``into``. Raises BadData, which names ``where``, the field, and what is wrong."""
    try:
        return strict_converter(detailed=False, extra=False).structure(item, into)
    except (ForbiddenExtraKeysError, KeyError, TypeError, ValueError) as wrong:
        raise BadData(f"{where}: {record_problem(item, into, extra=False)}", hint=hint) from wrong


def record_problem(item: Any, into: type[Any], *, extra: bool) -> str:
    """Return the first thing wrong with a record, and how many more there are. ``extra``: allow unknown fields."""
    try:
        strict_converter(detailed=True, extra=extra).structure(item, into)
    except (BaseValidationError, KeyError, TypeError, ValueError) as wrong:
        problems = [line.rpartition(" @ ") for line in transform_error(wrong, "", explain)]
        first = ": ".join(part for part in (problems[0][2].lstrip("."), problems[0][0]) if part)
        return first + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    return "does not fit"
