"""Readable names of contract tests, and what an author does if one fails (``advice.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ke_core.plugin import parse_toml


@cache
def advice() -> Mapping[str, str]:
    """Return the advice for each test of a contract, by its name."""
    return parse_toml(files("ke_testing").joinpath("advice.toml").read_bytes(), "advice.toml")


def readable_name(test: str) -> str:
    """``test_an_edit_leaks[float32]`` as "an edit leaks (float32)"."""
    name, _, variant = test.removeprefix("test_").partition("[")
    return name.replace("_", " ") + (f" ({variant.rstrip(']')})" if variant else "")


def advice_for(test: str) -> str:
    """Return the advice for the test of that name; there is none for tests of the plugin's author."""
    return advice().get(test.partition("[")[0], "read the test")
