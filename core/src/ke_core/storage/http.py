"""Read bodies of HTTP responses, up to a limited size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.error import HTTPError

FIRST = 1 << 20  # bytes of an error's body


def read_at_most(answer: HTTPResponse, limit: int) -> bytes:
    """Return the whole body, at most ``limit`` bytes.

    Raises ValueError for a longer body, HTTPException or OSError if the connection breaks.
    """
    from http.client import IncompleteRead  # noqa: PLC0415  15 ms that every plugin's import would pay

    body = answer.read(limit + 1)
    if len(body) > limit:
        raise ValueError(f"an answer of more than {limit >> 20} MiB")
    if answer.length:  # http.client accepts fewer bytes than were requested
        raise IncompleteRead(body, answer.length)
    return body


def read_error_body(error: HTTPError) -> bytes:
    """Return what can be read of the body of an error, to quote it."""
    from http.client import HTTPException  # noqa: PLC0415  as above

    try:
        return error.read(FIRST)
    except (OSError, HTTPException):
        return b""
