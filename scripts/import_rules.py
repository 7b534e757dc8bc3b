"""Contracts of import-linter whose lists of modules may be patterns of root packages, such as ``ke_plugin_*``."""

from __future__ import annotations

from fnmatch import filter as matching
from typing import Any

from importlinter import Contract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract

LISTS = ("source_modules", "forbidden_modules", "modules")


class _Patterns(Contract):
    def __init__(self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]) -> None:
        super().__init__(name, session_options, expanded(contract_options, session_options["root_packages"]))


class Forbidden(_Patterns, ForbiddenContract):
    """The contract ``forbidden``, with patterns."""


class Independence(_Patterns, IndependenceContract):
    """The contract ``independence``, with patterns."""


def expanded(options: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    """Replace each pattern with the packages that match it. ``!PATTERN`` removes those that earlier lines added."""
    return options | {key: _matching(options[key], packages) for key in LISTS if key in options}


def _matching(patterns: list[str], packages: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        for name in matching(packages, pattern.removeprefix("!")) or [pattern]:
            if pattern.startswith("!"):
                found.pop(name)
            else:
                found[name] = None
    return list(found)
