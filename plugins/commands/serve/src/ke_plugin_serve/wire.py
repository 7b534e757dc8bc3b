"""Request bodies and errors in the form of OpenAI's API: parse JSON, check fields, report what is wrong."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from attrs import define

from ke_core.plugin import TOO_DEEPLY_NESTED, error_line, loads

DIGITS = 30
DEEPEST = 64
"""Levels of nesting in a request body. Far below Python's recursion limit, so a file of edits can be read again."""


@define
class BadRequest(Exception):
    """A request that cannot be answered: an HTTP status, and OpenAI's error object."""

    message: str
    status: int = 400
    param: str | None = None
    code: str | None = None
    kind: str = "invalid_request_error"
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def refuse(param: str, what: str, *, code: str = "invalid_value") -> NoReturn:
    """Raise BadRequest about one field."""
    raise BadRequest(f"{param} {what}", param=param, code=code)


def parsed(body: bytes) -> dict[str, Any]:
    """Parse a JSON object in UTF-8. Raises BadRequest, also for NaN, lone surrogates and deep nesting."""
    too_deep = BadRequest(f"the request body is nested more than {DEEPEST} levels deep")
    try:
        raw = loads(body)
    except UnicodeError as error:
        raise BadRequest("the request body is not valid UTF-8 text") from error
    except ValueError as error:
        if str(error) == TOO_DEEPLY_NESTED:
            raise too_deep from error
        raise BadRequest(f"the request body is not JSON: {error_line(error)[:200]}") from error
    if nesting(raw) > DEEPEST:
        raise too_deep
    if not isinstance(raw, dict):
        raise BadRequest("the request body is not a JSON object")
    return raw


def nesting(value: object) -> int:
    """Return how many levels of lists and objects a JSON value has; 0 for a text or a number."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def whole(raw: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Return an integer within bounds; None if it is absent or null."""
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(name, f"must be a whole number, not {_short(value)}", code="invalid_type")
    if not low <= value <= high:
        refuse(name, f"must be from {low} to {high}, not {_short(value)}")
    return value


def numeral(value: str) -> int | str:
    """Parse a number in a query. A number with too many digits stays a text, because parsing it would be slow."""
    return int(value) if value.isdecimal() and len(value) <= DIGITS else value


def number(raw: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    """Return a number within bounds; None if it is absent or null."""
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(name, f"must be a number, not {_short(value)}", code="invalid_type")
    if not low <= value <= high:
        refuse(name, f"must be from {low:g} to {high:g}, not {_short(value)}")
    return float(value)


def flag(raw: Mapping[str, Any], name: str) -> bool:
    """Return a boolean; false if it is absent or null."""
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        refuse(name, f"must be true or false, not {_short(value)}", code="invalid_type")
    return bool(value)


def words(value: object, name: str) -> str:
    """Return a text."""
    _check_given(value, name)
    if not isinstance(value, str):
        refuse(name, f"must be a text, not {_short(value)}", code="invalid_type")
    return value


def text(value: object, name: str) -> str:
    """Return a text that is not blank."""
    found = words(value, name)
    if not found.strip():
        refuse(name, "is empty")
    return found


def listed(value: object, name: str, most: int) -> Sequence[Any]:
    """Return a list of 1 to ``most`` items."""
    _check_given(value, name)
    if not isinstance(value, list):
        refuse(name, f"must be a list, not {_short(value)}", code="invalid_type")
    if not value:
        refuse(name, "is empty")
    if len(value) > most:
        refuse(name, f"has {len(value)} items, but at most {most} are allowed")
    return value


def _check_given(value: object, name: str) -> None:
    if value is None:
        refuse(name, "is missing", code="invalid_type")


def _short(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**DIGITS:
        return f"a number of more than {DIGITS} digits"
    return json.dumps(value, ensure_ascii=False)[:60]


NAME = "localhost"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches ``host``: a name or an address. Only IPv6 may have brackets."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return host.lower() == NAME
    return address.is_loopback and (address.version == 6 or bare == host)


def host_name(header: str) -> str:
    """Return the name or address in a ``Host`` header, without the port. Empty if the header is malformed."""
    found = HOST.fullmatch(header)
    return found[1] if found else ""
