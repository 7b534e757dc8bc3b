"""The one converter: attrs values to JSON and back, and its errors in plain words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from attrs import fields, has
from cattrs import BaseValidationError, transform_error
from cattrs.gen import make_dict_unstructure_fn, override
from cattrs.preconf.json import JsonConverter, make_converter
from cattrs.strategies import configure_tagged_union
from cattrs.v import format_exception

from ke_core.data.results import Answer, Failure, Scored
from ke_core.data.strict import refuse_other_types
from ke_core.errors import BadConfig, KEError

T = TypeVar("T")


def tag_of(cls: type[Any]) -> str:
    """The tag of a union member: its class name in lower case."""
    return cls.__name__.lower()


@cache
def converter() -> JsonConverter:
    """Strict on the way in; complete on the way out but for OMITTED (``omit_if_default`` would drop schema numbers)."""
    made = make_converter(forbid_extra_keys=True)
    refuse_other_types(made)
    made.register_unstructure_hook_factory(
        lambda cls: has(cls) and bool(_omitted(cls)),
        lambda cls: make_dict_unstructure_fn(cls, made, **_omitted(cls)),
    )
    configure_tagged_union(Answer | Scored | Failure, made, tag_name="kind", tag_generator=tag_of)
    return made


def to_json(value: Any, declared: Any = None) -> Any:
    """JSON values (dicts, lists, strings, numbers) of an attrs value; ``declared`` for a union's tag."""
    return converter().unstructure(value, unstructure_as=declared)


def from_json(raw: Any, into: type[T], *, of: str, error: Callable[..., KEError] = BadConfig, hint: str = "") -> T:
    """Structure ``raw``, or raise ``error`` that says in plain words what is wrong with ``of``."""
    try:
        return converter().structure(raw, into)
    except BaseValidationError as wrong:
        raise error(f"{of} does not fit", details=tuple(transform_error(wrong, of, _explain)), hint=hint) from wrong
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise error(f"{of} does not fit: {wrong}", hint=hint) from wrong


def canonical(raw: Any) -> str:
    """One JSON text per value: sorted keys, no spaces, no NaN. Hashes and keys are made from it."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(raw: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(raw).encode()).hexdigest()


def _omitted(cls: Any) -> dict[str, Any]:
    marked = (attribute.name for attribute in fields(cls) if attribute.metadata.get("omitted"))
    return {name: override(omit_if_default=True) for name in marked}


def _explain(error: BaseException, expected: type | None) -> str:
    """Where cattrs would say 'invalid value'; a validator's own words are better."""
    if isinstance(error, KeyError):
        return f"required field missing: {error}"
    return str(error) if isinstance(error, TypeError | ValueError) and str(error) else format_exception(error, expected)
