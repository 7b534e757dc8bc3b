"""Remove the values of secret environment variables from what is written to a run folder.

Libraries quote tokens and passwords in error messages, and error messages are recorded. Only string values are changed:
keys and numbers identify records and must stay as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from ke_core.spec.codec import canonical
from ke_core.spec.errors import BadConfig

SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|CREDENTIALS|(^|_)KEY)(_?\d+)?$", re.IGNORECASE)
SHORTEST = 8
"""Shorter values are settings rather than secrets, and occur in ordinary text."""


def redacted(raw: Any) -> Any:
    """Return a copy of JSON values in which each secret is replaced by the name of its variable in brackets."""
    secrets = _secrets(_candidates())
    return _redacted(raw, secrets) if secrets else raw


def refuse_secrets(raw: Any, *, of: str) -> None:
    """Raise BadConfig if a string value in ``raw`` holds a secret of the environment."""
    clean = canonical(redacted(raw))
    if clean != canonical(raw):
        names = [name for name in _secrets(_candidates()).values() if f"[{name}]" in clean]
        raise BadConfig(
            f"{of} would hold the value of the environment variable {' or '.join(names)}",
            hint="remove it from the options; plugins read the variable themselves",
        )


def _redacted(raw: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(raw, str):
        for secret, name in secrets.items():
            raw = raw.replace(secret, f"[{name}]")
        return raw
    if isinstance(raw, Mapping):
        return {key: _redacted(value, secrets) for key, value in raw.items()}
    if isinstance(raw, list | tuple):
        return [_redacted(value, secrets) for value in raw]
    return raw


def _candidates() -> tuple[tuple[str, str], ...]:
    """Return the variables with the name of a secret. Called for each record, so it decodes no other value."""
    return tuple((name, os.environ[name]) for name in os.environ if _is_secret(name))


@cache
def _is_secret(name: str) -> bool:
    return SECRET.search(name) is not None


@lru_cache(maxsize=1)
def _secrets(candidates: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return variable names by value, longest value first, so that a secret that contains another is replaced whole."""
    found = {
        value: name
        for name, value in ((name, value.strip()) for name, value in candidates)
        if len(value) >= SHORTEST and not _is_number(value)
    }
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair)))


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
