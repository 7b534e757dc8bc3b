"""Explain in one line why a plugin cannot be loaded, and what its author can do."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pluggy import PluginValidationError

from ke_core.spec.errors import KEError, PluginBroken, PluginConflict

CORE_DISTRIBUTION = "ke-core"
LIBRARIES = re.compile(r"importlib|pluggy|contextlib|[/\\]attrs?[/\\]|<attrs ")
"""Files between the plugin's code and the core in a traceback."""


def one_line_reason(error: BaseException) -> str:
    """Return an exception in one line. For errors of attrs' validators, only the message."""
    if isinstance(error, KEError):
        return " ".join(error.message.split())
    first = error.args[0] if len(error.args) > 1 and not isinstance(error, SyntaxError) else None
    said = first if isinstance(first, str) else error
    return " ".join(f"{type(error).__name__}: {said}".split())


def step(error: BaseException, module: str) -> str:
    """Return what the author of the plugin ``module`` can do about ``error``."""
    if isinstance(error, KEError) and error.hint:
        return error.hint
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"add the package that provides {error.name} to its dependencies, or import it where it is used"
    if isinstance(error, PluginValidationError):
        return "compare the names and arguments of its hooks with ke_core/spec/hookspecs.py"
    if isinstance(error, SyntaxError):
        return "fix the syntax, or set requires-python to the versions of Python that can read it"
    if isinstance(error, SystemExit):
        return "its import and its hooks must not end the process: move script code under if __name__ == '__main__'"
    at = raised_at(error)
    return f"fix {at}" if at else f"python -c 'import {module.partition(':')[0]}' shows the traceback"


def raised_at(error: BaseException) -> str:
    """Return the line of a plugin's code that raised ``error``, as ``FILE, line N: CODE``. Empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    ours = str(Path(__file__).parents[1])
    every = traceback.extract_tb(error.__traceback__)
    frames = [one for one in every if not one.filename.startswith(ours) and not LIBRARIES.search(one.filename)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}" if frames else ""


def name_conflict(what: str, owner: str, newcomer: str) -> PluginConflict:
    """Return the error of ``newcomer``, which registers ``what`` although ``owner`` has registered it."""
    if owner == newcomer:
        return PluginConflict(f"{what} is registered twice by {owner}", hint="its author must register it once")
    return PluginConflict(
        f"{what} is registered by {owner} and by {newcomer}",
        hint=f"uninstall {newcomer}, or leave it out with KE_DISABLE_PLUGINS={newcomer}; "
        "its author must choose another name",
    )


def must_fit(requires: Iterable[str]) -> None:
    """Raise PluginBroken if a distribution with those requirements was built for an older or newer ke-core."""
    here = _own_version()
    for wanted in map(_core_range, requires):
        if wanted is not None and not wanted.specifier.contains(here, prereleases=True):
            raise PluginBroken(
                f"it was built for {CORE_DISTRIBUTION} {wanted.specifier}, and this is {here}",
                hint="run its tests with this ke-core, then widen the range in its pyproject.toml and publish that",
            )


def declares_core(requires: Iterable[str]) -> bool:
    """Return whether the requirements contain a range of versions of ke-core."""
    return any(found is not None and str(found.specifier) for found in map(_core_range, requires))


@cache
def _own_version() -> str:
    """The version is looked up once per process, because each look-up lists all folders of the path."""
    return version(CORE_DISTRIBUTION)


def _core_range(text: str) -> Requirement | None:
    """Return the requirement if it is for ke-core and applies here."""
    found = applicable(text)
    return found if found and canonicalize_name(found.name) == CORE_DISTRIBUTION else None


@cache
def applicable(text: str) -> Requirement | None:
    """Return a requirement that applies in this environment, without extras. None for any other text."""
    try:
        found = Requirement(text)
        return found if found.marker is None or found.marker.evaluate({"extra": ""}) else None
    except (InvalidRequirement, UndefinedEnvironmentName):
        return None  # pip refuses it
