"""Write docs/api-reference.md: the signatures and docstrings of the Python API.

    python scripts/api_reference.py

``pytest -m docs`` fails if the page is not up to date, and runs the examples of the docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ke_core as ke

INTERNAL = ("reserved", "check", "active", "replies")
"""Methods of the API's classes that only ``ke`` itself calls."""
PAGE = Path(__file__).resolve().parents[1] / "docs/api-reference.md"
HEAD = """# API reference

Every function and class of `import ke_core as ke`. [Python API](python-api.md) introduces them with examples.
`python scripts/api_reference.py` writes this page from the code. `OneOrMany` is a string or a list of strings; a list
gives a list.
"""
GROUPS = {
    "Models": ("load", "wrap", "connect", "Model"),
    "Edits": ("edit", "EditedModel"),
    "Evaluation": ("evaluate", "read_run", "compare", "Evaluation"),
    "Installed plugins": ("editors", "datasets", "metrics", "judges", "models"),
    "Tables": ("Table",),
}


WIDTH = 100


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _class(name) if inspect.isclass(getattr(ke, name)) else _callable(f"ke.{name}", getattr(ke, name))
    return "\n".join(parts).rstrip() + "\n"


def _class(name: str) -> Iterator[str]:
    made = getattr(ke, name)
    yield f"### `ke.{name}`\n\n{_text(made)}\n"
    owner = name[0].lower() + name[1:] if name != "EditedModel" else "edited"
    for member, value in sorted(_members(made).items(), key=_place):
        if isinstance(value, property):
            result = value.fget.__annotations__["return"] if value.fget else ""
            yield f"#### `{owner}.{member}`: `{result}`\n\n{_text(value)}\n"
        else:
            yield from _callable(f"{owner}.{member}", value, level=4)


def _members(made: type) -> dict[str, Any]:
    """Return the documented methods and properties of the API that a class has, inherited ones too."""
    owners = [owner for owner in reversed(made.__mro__) if owner.__module__.startswith("ke_core.api")]
    every = {name: value for owner in owners for name, value in vars(owner).items()}
    return {
        name: value
        for name, value in every.items()
        if not name.startswith("_")
        and name not in INTERNAL
        and (isinstance(value, property) or inspect.isfunction(value))
    }


def _place(member: tuple[str, Any]) -> tuple[str, int]:
    """Sort by module and line."""
    function: Any = inspect.unwrap(getattr(member[1], "fget", member[1]))
    return function.__code__.co_filename, function.__code__.co_firstlineno


def _callable(name: str, function: Any, level: int = 3) -> Iterator[str]:
    signature = inspect.signature(function)
    result = str(signature.return_annotation)
    if hasattr(function, "__wrapped__"):
        result = result.replace("Iterator", "ContextManager")
    words = [*_parameters([one for one in signature.parameters.values() if one.name != "self"])]
    shown = f"{name}({', '.join(words)}) -> {result}"
    if len(shown) > WIDTH:
        inner = "".join(f"    {word},\n" for word in words)
        shown = f"{name}(\n{inner}) -> {result}"
    yield f"{'#' * level} `{name}`\n\n```text\n{shown}\n```\n\n{_text(function)}\n"


def _parameters(parameters: Sequence[inspect.Parameter]) -> Iterator[str]:
    """Yield each parameter with its type and default value."""
    positional = True
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and positional:
            yield "*"
        positional = one.kind is not one.KEYWORD_ONLY
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        default = "" if one.default is one.empty else f" = {one.default!r}"
        yield f"{star}{one.name}: {one.annotation}{default}"


def _text(documented: Any) -> str:
    """Return a docstring as Markdown, with its examples as code blocks."""
    text = inspect.getdoc(documented) or ""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"(^>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
