"""What those that speak HTTP have in common: which names mean this machine, and how much of an answer is read."""

from __future__ import annotations

import ipaddress
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.error import HTTPError

NAME = "localhost"
FIRST = 1 << 20  # bytes of an error's body


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address with or without brackets, is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == NAME


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


def beginning(error: HTTPError) -> bytes:
    """As much as can be had of the body of an error, which is only there to be quoted."""
    try:
        return error.read(FIRST)
    except (OSError, HTTPException):
        return b""
