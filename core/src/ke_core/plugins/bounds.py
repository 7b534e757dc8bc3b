"""What the validators of a config class refuse, in the words in which a value of a wrong type is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cattrs import BaseValidationError

from ke_core.errors import BadConfig
from ke_core.specs import Spec

BOUND = re.compile(r"'(?P<name>\w+)' must be (?P<how>>=|>|<=|<) (?P<bound>\S+): ")
LENGTH = re.compile(r"Length of '(?P<name>\w+)' must be (?P<how>>=|<=) (?P<bound>\d+): ")
CHOICE = re.compile(r"'(?P<name>\w+)' must be in (?P<bound>.+) \(got ")
"""How the validators of attrs say it."""
HOW = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


def refused(error: BadConfig, spec: Spec[Any], given: Mapping[str, str]) -> BadConfig:
    """``error`` of the options ``given`` in the words of the command line, where it is of one of them."""
    found = [*_leaves(error.__cause__)] if error.__cause__ else []
    if len(found) != 1 or type(found[0]) is not ValueError:
        return error
    words = str(found[0].args[0]) if found[0].args else ""
    for name, hint in _said(words, given):
        return BadConfig(f"{spec.prefix}.{name} cannot be {_shown(given[name])}", hint=hint)
    return BadConfig(f"options of {spec.name} do not fit: {words}", hint=error.hint)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseValidationError):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _said(words: str, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Which of the options it is, and what it may be instead; first in words of our own."""
    if (found := BOUND.match(words)) and found["name"] in given:
        yield found["name"], f"{HOW[found['how']]} {found['bound']}"
    if (found := LENGTH.match(words)) and found["name"] in given:
        yield found["name"], f"{HOW[found['how']]} {found['bound']} of them"
    if (found := CHOICE.match(words)) and found["name"] in given:
        yield found["name"], f"one of: {re.sub('[^-,. 0-9A-Za-z_]', '', found['bound'])}"
    named = [name for name in given if re.search(rf"\b{re.escape(name)}\b", words)]
    if len(named) == 1:  # a validator of its author's own
        yield named[0], words


def _shown(text: str) -> str:
    """A number as it is, another text in quotes."""
    try:
        float(text)
    except ValueError:
        return repr(text)
    return text
