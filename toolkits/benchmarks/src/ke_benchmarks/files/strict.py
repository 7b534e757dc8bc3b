"""Structure JSON records strictly: no value is converted to another type."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, get_args, get_origin

from attrs import fields, has
from cattrs import Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override
from cattrs.v import format_exception

from ke_core.plugin import did_you_mean, json_type_only, refuse_other_types

UNKNOWN = "unknown field"
EMPTY = re.compile(r"Length of '(\w+)' must be >= 1.*", re.DOTALL)  # as attrs says it
Hook = Callable[[Any, Any], Any]


@cache
def strict_converter(*, detailed: bool, extra: bool = True) -> Converter:
    """Return a converter that converts no types: cattrs itself turns 5 into "5", and a text into a list of letters.

    ``detailed``: report every invalid field; otherwise stop at the first error. Unknown fields are ignored, or errors
    without ``extra``. ``metadata={"key": NAME}`` of an attrs field is its name in the file if that is not a Python
    name.
    """
    made = Converter(detailed_validation=detailed)
    refuse_other_types(made)
    made.register_structure_hook_factory(_is_fixed, lambda hint: _fixed(len(get_args(hint))))
    made.register_structure_hook_factory(_is_literal, _one_of)
    made.register_structure_hook_factory(
        has,
        lambda cls: json_type_only(
            dict, make_dict_structure_fn(cls, made, _cattrs_forbid_extra_keys=not extra, **_renamed(cls))
        ),
    )
    return made


def explain(error: BaseException, expected: type | None) -> str:
    """Format errors for ``cattrs.transform_error``, with our own messages for our own errors."""
    if isinstance(error, KeyError):
        return "missing"
    if isinstance(error, ForbiddenExtraKeysError):
        name = min(error.extra_fields)
        known = [one.metadata.get("key", one.name) for one in fields(get_origin(error.cl) or error.cl)]
        near = did_you_mean(name, known, "")
        return f"{UNKNOWN} {name!r}" + (f"; {near}" if near else "")
    if isinstance(error, TypeError | ValueError):
        return EMPTY.sub(r"\1 is empty", str(error))
    return format_exception(error, expected)


def _renamed(cls: Any) -> dict[str, Any]:
    """Return the fields whose names in the file differ from their Python names."""
    known = fields(get_origin(cls) or cls)
    return {one.name: override(rename=one.metadata["key"]) for one in known if "key" in one.metadata}


def _is_literal(hint: Any) -> bool:
    origin: Any = get_origin(hint)
    return origin is Literal


def _one_of(hint: Any) -> Hook:
    choices = get_args(hint)

    def structure(value: Any, _hint: Any) -> Any:
        if type(value) is not str or value not in choices:
            raise ValueError(f"must be one of {', '.join(map(str, choices))}")
        return value

    return structure


def _is_fixed(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[-1] is not Ellipsis


def _fixed(length: int) -> Hook:
    """Return a hook for a fixed number of texts."""

    def structure(value: Any, _hint: Any) -> tuple[str, ...]:
        if type(value) is not list or len(value) != length or not all(type(item) is str for item in value):
            raise TypeError(f"must be a list of {length} texts")
        return tuple(value)

    return structure
