"""Describe in one line how two specifications differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ke_core.results.sanitize import one_line
from ke_core.spec.codec import to_json
from ke_core.spec.runspec import Component, RunSpec

NAMED = 3
"""Maximum number of differences in a message."""
LONGEST = 60
"""Maximum characters of a value."""
NAMES = {"editor.name": "editor", "dataset.component.name": "dataset", "model.id": "model"}
"""Names of the parts of a run. If the name differs, the rest of the part is not compared."""
CHOSEN = ("editor.options", "dataset.component.options", "plan", "seed", "styles")
"""Options of the command. They are named before values that follow from them."""
CODE: Mapping[str, Callable[[RunSpec], Component]] = {
    "editor.code": lambda spec: spec.editor,
    "dataset.component.code": lambda spec: spec.dataset.component,
}
"""Digests of plugins' code, and their components."""

Differing = tuple[str, Any, Any]
"""The path of a field, and its two values."""


def first_difference(there: object, here: object) -> str:
    """Describe the first field in which two specifications differ."""
    whole = ("content", to_json(there), to_json(here))  # if they differ only by fields that are null in one of them
    path, old, new = next(_differing(*whole[1:]), whole)
    return f"its {path} is {_json(old)}, here it is {_json(new)}"


def run_difference(there: RunSpec, here: RunSpec) -> str:
    """Describe at most three differences of two runs: ``editor parrot (here mello), seed 0 (here 1)``."""
    found = [*_differing(to_json(there), to_json(here))]
    others = {_part(path) for path, _old, _new in found if path in NAMES}
    told = [one for one in found if one[0] in NAMES or _part(one[0]) not in others]
    told = [one for one in told if one[0] not in CODE or CODE[one[0]](there).version == CODE[one[0]](here).version]
    told.sort(key=lambda one: _rank(one[0]))  # stable: equal ranks keep the order of the specification
    return ", ".join(_told(one, there, here) for one in told[:NAMED])


def code_difference(there: RunSpec, here: RunSpec) -> str:
    """Name the plugins whose code changed between two runs. Empty if the runs differ in anything else."""
    found = [*_differing(to_json(there), to_json(here))]
    if any(path not in CODE for path, _old, _new in found):
        return ""
    return ", ".join(_told(one, there, here) for one in found)


def _told(one: Differing, there: RunSpec, here: RunSpec) -> str:
    path, old, new = one
    if path in CODE:
        component = CODE[path](here)
        what = f"the code of {component.distribution} {component.version} changed"
        return f"{what} (digest {_said(path, old)}, here {_said(path, new)})"
    return f"{_called(path, there)} {_said(path, old)} (here {_said(path, new)})"


def _rank(path: str) -> int:
    if path in NAMES:
        return [*NAMES].index(path)
    chosen = [path == one or path.startswith(f"{one}.") for one in CHOSEN]
    return len(NAMES) + (chosen.index(True) if any(chosen) else len(CHOSEN))


def _called(path: str, spec: RunSpec) -> str:
    """Return the name of a field on the command line."""
    if path in NAMES:
        return NAMES[path]
    options_of = {"editor.options.": spec.editor, "dataset.component.options.": spec.dataset.component}
    for options, component in options_of.items():
        if path.startswith(options):
            return f"{component.name}.{path.removeprefix(options)}"
    if path == "plan.size":
        return "batch" if spec.plan.protocol == "partition" else "edited"
    return path.removeprefix("plan.").replace("component.", "").replace(".", " ").replace("_", " ")


def _part(path: str) -> str:
    return path.partition(".")[0]


def _differing(there: Any, here: Any, path: str = "") -> Iterator[Differing]:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in (*there, *(name for name in here if name not in there)):
            yield from _differing(there.get(name), here.get(name), f"{path}.{name}" if path else name)
    elif there != here:
        yield path, there, here


def _said(path: str, value: Any) -> str:
    """Return a value as on the command line: text without quotes, lists with commas."""
    if path == "plan.size" and value is None:
        return "all"
    if value in (None, "", []):
        return "none" if value is None else "empty"
    if isinstance(value, list):
        return one_line(",".join(_said("", one) for one in value), LONGEST)
    return one_line(value, LONGEST) if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), LONGEST)
