"""Hints, docstrings and pages that write ``-o component.option`` name options that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import fields_dict

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_weights.composing import registered_wrappers

ROOT = Path(__file__).resolve().parents[1]
GIVEN = re.compile(r"-o ([a-z][a-z0-9-]*)\.([a-z][a-z0-9_]*)")
NAMED = re.compile(r"\b([a-z][a-z0-9-]*)\.([a-z][a-z0-9_]*)\b")
PLACEHOLDERS = {"component", "family", "my-method"}


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Return each prefix of ``-o`` with the options of its components."""
    found: dict[str, set[str]] = {}
    plugins = discover()
    for registrations in (*read_catalog(plugins).registrations.values(), registered_wrappers(plugins)):
        for registration in registrations.values():
            found.setdefault(registration.spec.prefix, set()).update(fields_dict(registration.spec.config))
            builder = getattr(registration.spec, "builder", None)
            if builder is not None:
                found.setdefault("build", set()).update(fields_dict(builder.config))
    return found


def files(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if "runs" not in path.parts]


def test_every_option_after_dash_o_exists(known: dict[str, set[str]]) -> None:
    texts = files("core/src/**/*.py", "plugins/*/*/src/**/*.py", "README.md", "docs/*.md", "plugins/*/*/README.md")
    wrong = [
        f"{path.relative_to(ROOT)}: -o {prefix}.{name}"
        for path in texts
        for prefix, name in GIVEN.findall(path.read_text(encoding="utf-8"))
        if prefix not in PLACEHOLDERS and name != "option" and name not in known.get(prefix, set())
    ]
    assert wrong == []


def hints(path: Path) -> Iterator[str]:
    """Return the constant text of every ``hint=`` argument."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_options_in_hints_exist(known: dict[str, set[str]]) -> None:
    found = [
        (path.name, prefix, name)
        for path in files("core/src/**/*.py", "plugins/*/*/src/**/*.py")
        for text in hints(path)
        for prefix, name in NAMED.findall(text)
        if prefix in known
    ]
    assert [one for one in found if one[2] not in known[one[1]]] == []
    assert found
