"""Convert attrs values to JSON and back, with readable error messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from attrs import fields, has
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.cols import homogenous_tuple_structure_factory, is_mapping, is_sequence, list_structure_factory
from cattrs.gen import make_dict_unstructure_fn, make_mapping_structure_fn, override
from cattrs.preconf.json import JsonConverter, make_converter
from cattrs.strategies import configure_tagged_union
from cattrs.v import format_exception

from ke_core.spec.errors import BadConfig, KEError
from ke_core.spec.results import Answer, Failure, Scored

T = TypeVar("T")


def tag_of(cls: type[Any]) -> str:
    """Return the tag of a union member: its class name in lower case."""
    return cls.__name__.lower()


@cache
def converter() -> JsonConverter:
    """Return the converter. It reads strictly. It writes all fields, except fields marked OMITTED at their default."""
    made = make_converter(forbid_extra_keys=True)
    refuse_other_types(made)
    made.register_unstructure_hook_factory(
        lambda cls: has(cls) and bool(_omitted(cls)), lambda cls: make_dict_unstructure_fn(cls, made, **_omitted(cls))
    )
    configure_tagged_union(Answer | Scored | Failure, made, tag_name="kind", tag_generator=tag_of)
    return made


def to_json(value: Any, declared: Any = None) -> Any:
    """Return an attrs value as JSON values (dict, list, str, numbers). ``declared``: a union whose tag is written."""
    return converter().unstructure(value, unstructure_as=declared)


def from_json(raw: Any, into: type[T], *, of: str, error: Callable[..., KEError] = BadConfig, hint: str = "") -> T:
    """Structure ``raw``. If it does not fit, raise ``error``, whose message names ``of`` and the fields."""
    try:
        return converter().structure(raw, into)
    except BaseValidationError as wrong:
        raise error(f"{of} does not fit", details=tuple(transform_error(wrong, of, _explain)), hint=hint) from wrong
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise error(f"{of} does not fit: {wrong}", hint=hint) from wrong


def canonical(raw: Any) -> str:
    """Return canonical JSON, for hashes and keys: sorted keys, no spaces, no NaN."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(raw: Any) -> str:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(raw).encode("utf-8", "backslashreplace")).hexdigest()


def _omitted(cls: Any) -> dict[str, Any]:
    marked = (attribute.name for attribute in fields(cls) if attribute.metadata.get("omitted"))
    return {name: override(omit_if_default=True) for name in marked}


def _explain(error: BaseException, expected: type | None) -> str:
    """Return the validator's message in place of cattrs' 'invalid value'."""
    if isinstance(error, KeyError):
        return f"required field missing: {error}"
    return str(error) if isinstance(error, TypeError | ValueError) and str(error) else format_exception(error, expected)


TEXTS = frozenset([str])
Hook = Callable[[Any, Any], Any]
NOUNS = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null",
    list: "a list", dict: "an object",
}  # fmt: skip


def noun(value: Any) -> str:
    """Return the kind of a JSON value, in a few words."""
    return NOUNS.get(type(value), type(value).__name__)


def refuse_other_types(made: Converter) -> None:
    """Let ``made`` structure texts, numbers, lists and objects only from JSON values of that type."""
    for kind in (str, int, bool):
        made.register_structure_hook(kind, json_type_only(kind))
    made.register_structure_hook(float, _number)
    made.register_structure_hook_factory(is_sequence, lambda hint: json_type_only(list, _sequence(hint, made)))
    made.register_structure_hook_factory(
        is_mapping, lambda hint: json_type_only(dict, make_mapping_structure_fn(hint, made))
    )


def _sequence(hint: Any, made: Converter) -> Hook:
    factory = list_structure_factory if get_origin(hint) is list else homogenous_tuple_structure_factory
    hook: Hook = factory(hint, made)
    if get_args(hint) != (str, ...):
        return hook

    def texts(value: list[Any], hint: Any) -> Any:
        """Most sequences of a dataset are texts. Checking them together takes a third of the time of one by one."""
        return tuple(value) if TEXTS.issuperset(map(type, value)) else hook(value, hint)

    return texts


def _number(value: Any, _hint: Any) -> Any:
    """Accept 2 for 2.0."""
    if type(value) not in (float, int):
        raise TypeError(f"must be a number, not {noun(value)}")
    return value


def json_type_only(kind: type, inner: Hook | None = None) -> Hook:
    """Return a hook that structures only JSON values of type ``kind``, with ``inner``."""

    def structure(value: Any, hint: Any) -> Any:
        if type(value) is not kind:  # isinstance would take true for a whole number
            raise TypeError(f"must be {NOUNS[kind]}, not {noun(value)}")
        return inner(value, hint) if inner else value

    return structure
