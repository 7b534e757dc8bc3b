"""Server errors as one-line messages, which of them are worth a retry, and the removal of the key from texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ke_core.plugin import ContentRefused, ContextOverflow, KEError, ServerFailed, ServerRefused, loads

SHOWN = 200  # maximum characters of a server's own message
CHARGED = 3  # tries of a request that the server may have processed, and charged, each time
BUSY, UNPAID = 429, 402
AGAIN = frozenset({408, 409, 425, BUSY})
"""Statuses below 500 that mean: later."""
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum (context|prompt length)|range of input length|too many tokens"
    r"|\b(prompt|input|message|request|conversation|text)s?\b((?!stop|list|array)[^.:]){0,40}\btoo (long|large)"
    r"|too (long|large) (a |an )?(prompt|input|text)"
    r"|exceed\w* .{0,40}(context|tokens? limit|number of tokens|max_seq_len)"
    r"|\b(prompt|input)\b[^.:]{0,40} exceed\w* .{0,20}length"
    r"|inputs`? (tokens \+|must have less than)"
    r"|longer than the (maximum|model)|max_model_len|string_above_max_length",
    re.IGNORECASE,
)
"""Messages of servers whose prompt is too long; few use OpenAI's. Not every message about length is about a prompt."""
REFUSED = re.compile(r"content[ _]?(filter|policy|management)|moderation|safety (system|polic)", re.IGNORECASE)


class Transient(Exception):
    """An error worth a retry. ``wait``: seconds requested by the server, or 0. ``busy``: the server is overloaded.

    ``tries``: maximum number of tries, because they cost money.
    """

    def __init__(self, message: str, *, wait: float = 0.0, busy: bool = False, tries: int = 100) -> None:
        super().__init__(message)
        self.message = message
        self.wait = wait
        self.busy = busy
        self.tries = tries


class Unreachable(Transient):
    """No server listens at the address."""


def fault(status: int, headers: Mapping[str, str], body: str, *, key: str, clean: Clean) -> KEError | Transient:
    """Return the error for an answer other than 200. ``key`` describes whether a key was sent; ``clean`` hides it."""
    words = server_message(body, clean)
    suffix = f": {words}" if words else ""
    if refused := _refused(status, body, suffix, key):
        return refused
    if status in AGAIN or status >= 500:
        return Transient(f"the server returned status {status}{suffix}", wait=retry_after(headers), busy=status == BUSY)
    if REFUSED.search(body):
        return ContentRefused(f"the server withheld its answer ({status}){suffix}")
    if status == 413 or (status in (400, 422) and TOO_LONG.search(body)):
        return ContextOverflow(f"the prompt is too long for the server's model ({status}){suffix}")
    return ServerFailed(f"the server rejected the request ({status}){suffix}")


def fault_in_answer(error: object, body: str, *, key: str, clean: Clean) -> KEError | Transient:
    """Return the error in an answer with status 200, by its code if that is an HTTP status, or by its message."""
    code = error.get("code") if isinstance(error, dict) else None
    status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else None
    if status is None and re.search(r"unexpected endpoint", body, re.IGNORECASE):
        status = 404
    if status is None and TOO_LONG.search(body):
        status = 400
    if status is not None:
        return fault(status, {}, body, key=key, clean=clean)
    return Transient(f"the server returned an error: {server_message(body, clean)}", tries=CHARGED)


def _refused(status: int, body: str, suffix: str, key: str) -> ServerRefused | None:
    """Return the error of a rejection that affects every request."""
    if status in (401, 403) and not REFUSED.search(body):
        return ServerRefused(f"the server rejected the request ({status}); {key}{suffix}", status=status, hint=KEY)
    if status == UNPAID or (status == BUSY and "insufficient_quota" in body):
        return ServerRefused(f"the account has no credit left ({status}){suffix}", status=status, hint=ACCOUNT)
    if status == 404:
        return ServerRefused(
            f"the server does not know this model or endpoint (404){suffix}", status=status, hint=NOT_FOUND
        )
    if 300 <= status < 400:
        return ServerRefused(f"the server redirects to another address ({status})", status=status, hint=REDIRECTED)
    return None


KEY = "set that variable to a valid key, or name another with --api-key-env"
ACCOUNT = "add credit, then run the same command again"
REDIRECTED = "correct --base-url: redirects are not followed, to protect the key"
NOT_FOUND = "check --model and --base-url (which often ends in /v1); chat models need --chat, others --no-chat"


def server_message(body: str, clean: Clean) -> str:
    """Return the server's message in one short line: the ``message`` of an error object, or the start of the text."""
    try:
        raw: Any = loads(body, surrogates=True)
    except ValueError:
        raw = re.sub(r"<[^>]*>", " ", body)  # the error page of a proxy
    return answer_message(raw, clean)


def answer_message(raw: Any, clean: Clean) -> str:
    """Return the message of a parsed answer. It is cleaned after parsing, because parsing JSON resolves escapes."""
    for name in ("error", "message", "detail"):
        if isinstance(raw, dict) and name in raw:
            raw = raw[name]
    words = (raw if isinstance(raw, str) else json.dumps(raw)) if raw else ""
    words = " ".join(clean(words).split())
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 3]}..."


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds in ``Retry-After``, a number or a date; 0 if it is missing or neither."""
    given = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", given):
        return float(given)
    try:
        when = parsedate_to_datetime(given)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):  # a time zone with an invalid offset
        return 0.0


Clean = Callable[[str], str]
SECRET = 8  # a shorter key is a placeholder ("EMPTY", "none") and may occur in any text
NOTHING = re.compile(r"(?!)")


def whole(text: str) -> str:
    """Join surrogate pairs in ``text``, and replace a lone surrogate by U+FFFD, because UTF-8 cannot encode it.

    A token limit may split an emoji, and JSON can contain the half that is left.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def quoted(key: str) -> re.Pattern[str]:
    r"""Return a pattern for ``key`` as plain text and as JSON may write it, also nested: ``\/``, ``\u002f``,
    ``\\u002F``.
    """
    if len(key) < SECRET:
        return NOTHING
    return re.compile("".join(rf"\\{{0,9}}(?:{re.escape(one)}|(?i:u{ord(one):04x}))" for one in key))
