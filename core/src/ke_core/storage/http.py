"""Helpers for HTTP clients and servers: loopback names, the Host header, bounded reads."""

from __future__ import annotations

import ipaddress
import re
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.error import HTTPError

NAME = "localhost"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
FIRST = 1 << 20  # bytes of an error's body


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


def read_at_most(answer: HTTPResponse, limit: int) -> bytes:
    """The whole body: what is endless must not fill the memory.

    Raises ValueError for more than ``limit`` bytes, HTTPException or OSError for one that breaks off.
    """
    body = answer.read(limit + 1)
    if len(body) > limit:
        raise ValueError(f"an answer of more than {limit >> 20} MiB")
    if answer.length:  # asked for a number of bytes, http.client does not mind that fewer came
        raise IncompleteRead(body, answer.length)
    return body


def read_error_body(error: HTTPError) -> bytes:
    """As much as can be had of the body of an error, which is only there to be quoted."""
    try:
        return error.read(FIRST)
    except (OSError, HTTPException):
        return b""
