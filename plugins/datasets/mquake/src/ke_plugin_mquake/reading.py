"""A published file to records, or one line that names file, case and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cattrs import BaseValidationError, transform_error

from ke_core.plugin import BadData
from ke_plugin_mquake.records import Record
from ke_plugin_mquake.strict import explain, noun, strict_converter


def parse(content: bytes, path: Path) -> Any:
    """What the JSON text holds. Raises BadData for anything that is not JSON in UTF-8."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as wrong:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        where = f"line {wrong.lineno}, column {wrong.colno}" if isinstance(wrong, json.JSONDecodeError) else str(wrong)
        cut = content.rstrip()[-1:] not in (b"]", b"}")
        raise BadData(
            f"{path} is {'cut off' if cut else 'not JSON'} ({where})",
            hint=f"get {path.name} again where it is published",
        ) from wrong


def read(content: bytes, path: Path) -> tuple[Record, ...]:
    """Every record, in order. Raises BadData, which names file, case and field."""
    raw = parse(content, path)
    again = f"mend {path.name}, or get it again where it is published"
    if not isinstance(raw, list):
        raise BadData(f"{path} holds {noun(raw)}, not a list of cases", hint=again)
    if not raw:
        raise BadData(f"{path} holds no case", hint=again)
    found: dict[int, Record] = {}
    quick = strict_converter(detailed=False)
    for index, item in enumerate(raw, start=1):
        try:
            record = quick.structure(item, Record)
        except (KeyError, TypeError, ValueError) as wrong:
            raise BadData(f"{path}, {_name(item, index)}: {_problem(item)}", hint=again) from wrong
        if record.case_id in found:
            raise BadData(f"{path}, record {index}: case_id: {record.case_id} occurs twice", hint=again)
        found[record.case_id] = record
    return tuple(found.values())


def _name(item: Any, index: int) -> str:
    case = item.get("case_id") if isinstance(item, dict) else None
    return f"case {case}" if type(case) is int else f"record {index}"


def _problem(item: Any) -> str:
    """The first thing wrong with a record, and how many more there are."""
    try:
        strict_converter(detailed=True).structure(item, Record)
    except (BaseValidationError, TypeError) as wrong:
        problems = [line.rpartition(" @ ") for line in transform_error(wrong, "", explain)]
        first = ": ".join(part for part in (problems[0][2].lstrip("."), problems[0][0]) if part)
        return first + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    return "does not fit"
