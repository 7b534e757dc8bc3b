"""Pages about what Python code sees: the data model, the interfaces, and everything that the facades offer."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

from attrs import NOTHING, fields, has
from commands import cell, escaped

MODEL = {
    "Facts and edits": "ke_core.spec.facts",
    "What is asked": "ke_core.spec.queries",
    "Prompts": "ke_core.spec.prompts",
    "Replies, verdicts, scores": "ke_core.spec.results",
    "The specification of a run": "ke_core.spec.runspec",
    "The lines of records.jsonl": "ke_core.spec.records",
    "Requests to the engine": "ke_core.spec.requests",
}
FACADES = {
    "ke_core.plugin": "For every plugin. It loads neither torch nor numpy.",
    "ke_core.app": "For commands and for programs.",
    "ke_weights.plugin": "For editors that open the model. It loads torch.",
    "ke_memory.plugin": "For editors that leave the model unchanged.",
    "ke_benchmarks": "For datasets.",
    "ke_benchmarks.graph": "For builders of benchmarks.",
}
CONTRACTS = (
    "ke_testing.editor",
    "ke_weights.testing.opening",
    "ke_weights.testing.weights",
    "ke_testing.dataset",
    "ke_testing.metric",
    "ke_testing.judge",
)
NEVER = ("object", "type", "Protocol", "Generic")


def value_pages() -> Iterator[tuple[str, str]]:
    """The data model, the interfaces and the facades."""
    yield "reference/data-model.md", data_model()
    yield "reference/interfaces.md", interfaces()
    yield "reference/facades.md", facades()


def data_model() -> str:
    """Every value class with its fields."""
    head = (
        "# The data model\n\nFrozen values without behavior of their own, made with keywords. A type is written as in "
        "the code; *needed* means that there is no default.\n"
    )
    parts = [head]
    for title, module in MODEL.items():
        parts.append(f"## {title}\n\nModule `{module}`.\n")
        for name, cls in own_classes(importlib.import_module(module)):
            if has(cls):
                parts += [f"### {name}\n", *docstring(cls), *_fields(cls)]
    return "\n".join(parts)


def interfaces() -> str:
    """The protocols, with their methods, and the specifications that hooks return."""
    head = (
        "# Interfaces\n\nWhat a plugin implements, what it is handed, and what its hooks return. "
        "The data in them are described under [the data model](data-model.md).\n"
    )
    parts = [head, "## What plugins implement and are handed\n\nModule `ke_core.spec.protocols`.\n"]
    for name, cls in own_classes(importlib.import_module("ke_core.spec.protocols")):
        parts += [f"### {name}\n", *docstring(cls), *(_fields(cls) if has(cls) else _methods(cls))]
    parts.append("## What hooks return\n\nModule `ke_core.spec.specs`.\n")
    for name, cls in own_classes(importlib.import_module("ke_core.spec.specs")):
        parts += [f"### {name}\n", *docstring(cls), *_fields(cls)]
    return "\n".join(parts)


def facades() -> str:
    """What plugins may import, and the contracts that test them."""
    parts = ["# What plugins import\n\nThese modules are public. Everything else may change with any version.\n"]
    for module, words in FACADES.items():
        found = importlib.import_module(module)
        rows = [f"| `{name}` | {_first(getattr(found, name))} |" for name in sorted(found.__all__, key=str.lower)]
        parts += [f"## {module}\n\n{words}\n", "| name | |\n| --- | --- |", *rows, ""]
    parts.append("## Contracts\n\nEach contract is a class that a test subclasses. Every promise is a test in it.\n")
    for name in CONTRACTS:
        module_ = importlib.import_module(name)
        for title, cls in own_classes(module_):
            if title.endswith("Contract"):
                parts += [f"### {module_.__name__}.{title}\n", *docstring(cls), *_promises(cls)]
    return "\n".join(parts)


def own_classes(module: ModuleType) -> Iterator[tuple[str, type]]:
    """The public classes of a module, in the order of the file."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield name, value


def docstring(thing: Any) -> Iterator[str]:
    """A docstring as Markdown: double backticks become single ones, what follows two colons a block."""
    text = inspect.cleandoc(thing.__doc__ or "")
    for part in text.split("\n\n"):
        if part.startswith("    "):
            yield f"```python\n{inspect.cleandoc(chr(10) + part)}\n```\n"
        elif part.startswith("==="):
            yield f"```text\n{part}\n```\n"
        elif part.strip() not in ("", "::"):
            yield _prose(re.sub(r"::$", ":", part)) + "\n"


def _prose(text: str) -> str:
    return escaped(" ".join(text.split()).replace("``", "`"))


def _first(thing: Any) -> str:
    """The first sentence or so of what a name stands for."""
    if get_origin(thing) in (Union, UnionType):
        return "one of " + ", ".join(f"`{one.__name__}`" for one in get_args(thing))
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return "a value" if isinstance(thing, str | tuple | float | int) else ""
    if not thing.__doc__ or getattr(thing, "__module__", "").startswith("pluggy"):
        return ""
    return cell(inspect.cleandoc(thing.__doc__).split("\n\n")[0].replace("``", "`").removesuffix("::"))


def _fields(cls: type) -> Iterator[str]:
    shown = [one for one in fields(cls) if not one.name.startswith("_")]
    if not shown:
        return
    yield "| field | type | default |\n| --- | --- | --- |"
    for one in shown:
        type_ = one.type if isinstance(one.type, str) else inspect.formatannotation(one.type)
        yield f"| `{one.name}` | `{type_}` | {_default(one.default)} |".replace(" | None", r" \| None")
    yield ""


def _default(value: Any) -> str:
    if value is NOTHING:
        return "*needed*"
    factory = getattr(value, "factory", None)
    if factory is not None:
        return "empty" if factory in (dict, list, tuple) else f"`{factory.__name__}()`"
    if callable(value):
        return "a function"
    return f"`{value!r}`".replace("|", r"\|")


def _methods(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        function = value.fget if isinstance(value, property) else value
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        signature = name if isinstance(value, property) else f"{name}{_signature(function)}"
        lines = " ".join(" ".join(docstring(function)).split())
        yield f"- `{signature}`: {lines}"
    yield ""


def _signature(function: Any) -> str:
    return str(inspect.signature(function)).replace("'", "").replace("(self, ", "(").replace("(self)", "()")


def _promises(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        if name.startswith("test_"):
            told = _first(value)
            yield f"- {name.removeprefix('test_').replace('_', ' ')}" + (f" ({told})" if told else "")
    yield ""
