"""Reference pages of the Python code: the data model, the interfaces and the facades."""

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
    "Queries and cases": "ke_core.spec.queries",
    "Prompts": "ke_core.spec.prompts",
    "Replies, verdicts, scores": "ke_core.spec.results",
    "The specification of a run": "ke_core.spec.runspec",
    "The lines of records.jsonl": "ke_core.spec.records",
    "Requests to the engine": "ke_core.spec.requests",
}
FACADES = {
    "ke_core.plugin": "For every plugin. It imports neither torch nor numpy.",
    "ke_core.app": "For commands and programs.",
    "ke_weights.plugin": "For editors that need the model's weights. It imports torch.",
    "ke_memory.plugin": "For editors that leave the model unchanged.",
    "ke_benchmarks": "For datasets, and for metrics and judges of texts.",
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
    """Yield the pages of the data model, the interfaces and the facades."""
    yield "reference/data-model.md", data_model()
    yield "reference/interfaces.md", interfaces()
    yield "reference/facades.md", facades()


def data_model() -> str:
    """Return the page with every value class and its fields."""
    head = (
        "# The data model\n\nImmutable value classes. Create them with keyword arguments. *required* means that a "
        "field has no default.\n"
    )
    parts = [head]
    for title, module in MODEL.items():
        parts.append(f"## {title}\n\nModule `{module}`.\n")
        for name, cls in own_classes(importlib.import_module(module)):
            if has(cls):
                parts += [f"### {name}\n", *docstring(cls), *_fields(cls)]
    return "\n".join(parts)


def interfaces() -> str:
    """Return the page of the protocols, with their methods, and of the specifications that hooks return."""
    head = (
        "# Interfaces\n\nThe protocols that plugins implement and use, and the specifications that hooks return. "
        "[The data model](data-model.md) describes the values in them.\n"
    )
    parts = [head, "## Protocols\n\nModule `ke_core.spec.protocols`.\n"]
    for name, cls in own_classes(importlib.import_module("ke_core.spec.protocols")):
        parts += [f"### {name}\n", *docstring(cls), *(_fields(cls) if has(cls) else _methods(cls))]
    parts.append("## Specifications\n\nModule `ke_core.spec.specs`.\n")
    for name, cls in own_classes(importlib.import_module("ke_core.spec.specs")):
        parts += [f"### {name}\n", *docstring(cls), *_fields(cls)]
    return "\n".join(parts)


def facades() -> str:
    """Return the page of the public modules and of the contracts."""
    parts = ["# Public modules\n\nPlugins import from these modules. Everything else may change with any version.\n"]
    for module, words in FACADES.items():
        found = importlib.import_module(module)
        rows = [f"| `{name}` | {_first(getattr(found, name))} |" for name in sorted(found.__all__, key=str.lower)]
        parts += [f"## {module}\n\n{words}\n", "| name | what it is |\n| --- | --- |", *rows, ""]
    parts.append(
        "## Contracts\n\nEach contract is a test class. Subclass it in your tests; each check is a test method.\n"
    )
    for name in CONTRACTS:
        module_ = importlib.import_module(name)
        for title, cls in own_classes(module_):
            if title.endswith("Contract"):
                parts += [f"### {module_.__name__}.{title}\n", *docstring(cls), *_checks(cls)]
    return "\n".join(parts)


def own_classes(module: ModuleType) -> Iterator[tuple[str, type]]:
    """Yield the public classes of a module, in the order of the file."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield name, value


def docstring(thing: Any) -> Iterator[str]:
    """Yield a docstring as Markdown: double backticks become single ones, indented parts become blocks."""
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
    """Return the first sentence of the docstring of a name."""
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
        return "*required*"
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


def _checks(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        if name.startswith("test_"):
            summary = _first(value)
            yield f"- {name.removeprefix('test_').replace('_', ' ')}" + (f" ({summary})" if summary else "")
    yield ""
