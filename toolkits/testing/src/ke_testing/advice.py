"""Promises in words, and what an author does about one that is broken: ``advice.toml``, beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ke_core.plugin import parse_toml

PITFALL = re.compile(r"((?:[vmesx]\d+_)+)")


@cache
def advice() -> Mapping[str, str]:
    """What to do about each test of a contract, by its name."""
    return parse_toml(files("ke_testing").joinpath("advice.toml").read_bytes(), "advice.toml")


def in_words(test: str) -> str:
    """``test_s1_an_edit_leaks[float32]`` as "an edit leaks (float32; S1)"."""
    name, _, variant = test.removeprefix("test_").partition("[")
    pitfall = PITFALL.match(name)
    ids = pitfall[1].strip("_").upper().split("_") if pitfall else []
    words = name[pitfall.end() :] if pitfall else name
    more = "; ".join(filter(None, (variant.rstrip("]"), ", ".join(ids))))
    return words.replace("_", " ") + (f" ({more})" if more else "")


def advice_for(test: str) -> str:
    """What to do about the test of that name when it fails; a test of the author's own is not known here."""
    return advice().get(test.partition("[")[0], "read the test")
