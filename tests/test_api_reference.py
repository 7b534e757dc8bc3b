"""docs/api-reference.md matches the code, and the examples of the docstrings run."""

import doctest
import inspect
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import ke_core as ke
import ke_core.app
import ke_core.plugin
from ke_core.api import editing, runs

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.docs


def test_the_page_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts/api_reference.py"))
    assert (ROOT / "docs/api-reference.md").read_text(encoding="utf-8") == script["page"]()


def test_public_signatures_name_only_public_types() -> None:
    public = {id(getattr(facade, name)) for facade in (ke, ke_core.plugin, ke_core.app) for name in facade.__all__}
    signatures = dict(_signatures())
    assert len(signatures) > 45
    types = {kind for signature in signatures.values() for hint in signature for kind in _types(hint)}
    assert {kind for kind in types if kind.__module__.startswith("ke_") and id(kind) not in public} == set()


def _signatures() -> Iterator[tuple[str, list[Any]]]:
    """Yield the types in the signature of each public function, method, property and field."""
    for name in ke.__all__:
        owner = getattr(ke, name)
        members = inspect.getmembers(owner) if inspect.isclass(owner) else []
        for member, found in [("", owner), *members]:
            function: Any = inspect.unwrap(getattr(found, "fget", found))
            if not member.startswith("_") and (inspect.isclass(found) or inspect.isfunction(function)):
                hints = get_type_hints(function)
                yield f"{name}.{member}", [hint for field, hint in hints.items() if not field.startswith("_")]


def _types(hint: Any) -> Iterator[type]:
    for part in get_args(hint):
        yield from _types(part)
    if inspect.isclass(kind := get_origin(hint) or hint):
        yield kind


@pytest.mark.model
def test_examples_of_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = ke.load("smollm2-135m")
    quick = {"tokens": 5000, "steps": 10}
    with ke.edit(model, "The capital of {} is", subject="Peru", target="Cusco", editor="rome", options=quick) as edited:
        failed, tried = _run(editing, {"ke": ke, "edited": edited}, only="EditedModel")
    for module in (sys.modules["ke_core.api.models"], runs):  # ke_core.api.models is also the name of a function
        more_failed, more_tried = _run(module, {"ke": ke, "model": model})
        failed, tried = failed + more_failed, tried + more_tried
    more_failed, more_tried = _run(editing, {"ke": ke, "model": model}, only="edit")
    assert failed + more_failed == 0
    assert tried + more_tried == 17


def _run(module: object, names: dict[str, object], only: str = "") -> tuple[int, int]:
    """Run the examples of a module. Return the numbers of failed and of all examples."""
    runner = doctest.DocTestRunner()
    found = doctest.DocTestFinder().find(module, "api", extraglobs=names)
    for test in sorted(found, key=lambda test: test.lineno or 0):
        if not only or only in test.name.split("."):
            runner.run(test)
    return runner.summarize(verbose=False)
