"""Rules of the repository that no linter checks. Each test loops over all files and reports every failure at once."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ke_testing.contract import MACHINE

pytestmark = pytest.mark.xdist_group("layout")  # they share the syntax trees

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("core", "bundle", "toolkits/*", "plugins/*/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
WITH_CODE = [folder for folder in DISTRIBUTIONS if (folder / "src").is_dir()]
SOURCES = {path: path.read_text(encoding="utf-8") for folder in WITH_CODE for path in (folder / "src").rglob("*.py")}
PROJECTS: dict[Path, dict[str, Any]] = {
    folder: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in DISTRIBUTIONS
}
FACADES = ("core/src/ke_core/app.py", "core/src/ke_core/plugin.py")
JSON_READER = "core/src/ke_core/storage/json_reading.py"
METADATA = {"description", "readme", "license", "requires-python", "authors", "classifiers"}


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in SOURCES.items()}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def matches(pattern: str) -> dict[str, str]:
    """Return the first match of ``pattern`` in each source file that has one."""
    return {name(path): found[0] for path, text in SOURCES.items() if (found := re.search(pattern, text))}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function with its location."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name(path)}:{node.lineno} {node.name}", node


def test_modules_have_at_most_300_lines() -> None:
    lengths = {name(path): len(text.splitlines()) for path, text in SOURCES.items()}
    assert {path: lines for path, lines in lengths.items() if lines > 300 and path not in FACADES} == {}


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name(path)}:{node.lineno}")
    assert not {one: found for one, found in places.items() if len(found) > 1}


def test_facades_only_reexport() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign)  # assignments of __all__ and hookimpl
    for facade in FACADES:
        docstring, *rest = trees()[ROOT / facade].body
        assert isinstance(docstring, ast.Expr)
        assert [ast.unparse(node) for node in rest if not isinstance(node, allowed)] == [], facade


def test_functions_have_at_most_60_lines() -> None:
    lengths = {place: (node.end_lineno or 0) - node.lineno + 1 for place, node in functions()}
    assert {place: lines for place, lines in lengths.items() if lines > 60} == {}


def test_functions_take_at_most_6_positional_parameters() -> None:
    wrong = {}
    for place, node in functions():
        positional = [a for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
        is_command = any("click" in ast.unparse(decorator) for decorator in node.decorator_list)
        if len(positional) > 6 and not is_command:
            wrong[place] = len(positional)
    assert wrong == {}


def test_no_function_raises_not_implemented_error() -> None:
    assert matches(r"raise NotImplementedError\(\)") == {}


def test_json_and_toml_are_read_only_by_the_shared_reader() -> None:
    found = matches(r"\bjson\.loads?\((?!json\.dumps\()|\btomllib\b")
    assert found.keys() - {JSON_READER} == set()


def test_the_code_has_no_device_names_and_machine_paths() -> None:
    assert matches(MACHINE.pattern) == {}


def test_third_party_imports_are_declared() -> None:
    wrong = {name(folder): undeclared for folder in WITH_CODE if (undeclared := imported(folder) - declared(folder))}
    assert wrong == {}


def test_entry_points_are_named_like_their_distributions() -> None:
    found = {name(folder): list(PROJECTS[folder]["entry-points"]["ke"]) for folder in WITH_CODE}
    assert found == {name(folder): [PROJECTS[folder]["name"]] for folder in WITH_CODE}


def test_every_distribution_has_a_license_a_readme_and_metadata() -> None:
    for folder in DISTRIBUTIONS:
        assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes(), name(folder)
        assert (folder / "README.md").is_file(), name(folder)
        assert PROJECTS[folder].keys() >= METADATA, name(folder)
        classifiers = set(PROJECTS[folder]["classifiers"])
        assert "Programming Language :: Python :: 3" in classifiers, name(folder)
        assert ("Typing :: Typed" in classifiers) == (folder in WITH_CODE), name(folder)


def test_every_distribution_with_code_has_tests_and_lists_its_notices() -> None:
    for folder in WITH_CODE:
        assert list((folder / "tests").glob("**/test_*.py")), name(folder)
        paths = (folder / "src").rglob("*")
        notices = {path.relative_to(folder).as_posix() for path in paths if re.search(r"NOTICE|LICEN[CS]E", path.name)}
        assert {"LICENSE", *notices} == set(PROJECTS[folder].get("license-files", ["LICENSE"])), name(folder)


def test_every_distribution_is_in_requirements_tox_and_import_rules() -> None:
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(line.removeprefix("-e ./") for line in requirements if line.startswith("-e ")) == sorted(
        map(name, DISTRIBUTIONS)
    )
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    for kind, above in (("plugin", ROOT / "plugins"), ("toolkit", ROOT / "toolkits")):
        environments = re.search(rf"\[testenv:{kind}-\{{(.*)\}}\]", tox)
        assert environments is not None
        assert environments[1].split(",") == sorted(folder.name for folder in WITH_CODE if above in folder.parents)
    rules = (ROOT / ".importlinter").read_text(encoding="utf-8")
    assert [name(folder) for folder in WITH_CODE if next((folder / "src").iterdir()).name not in rules] == []


def test_the_bundle_depends_on_every_distribution_with_code() -> None:
    """An extra names those whose own dependencies are large."""
    bundle = PROJECTS[ROOT / "bundle"]
    entries = [*bundle["dependencies"], *(one for extra in bundle["optional-dependencies"].values() for one in extra)]
    needed = [re.split(r"[>=<\[]", entry)[0] for entry in entries]
    assert sorted(needed) == sorted(PROJECTS[folder]["name"] for folder in WITH_CODE)


def declared(folder: Path) -> set[str]:
    """Return the modules that a distribution may import."""
    extras = (entry for entries in PROJECTS[folder].get("optional-dependencies", {}).values() for entry in entries)
    names = {re.split(r"[\[<>=!~; ]", one, maxsplit=1)[0] for one in (*PROJECTS[folder]["dependencies"], *extras)}
    own = {path.name for path in (folder / "src").iterdir()}
    return {one.lower().replace("-", "_") for one in names} | own | set(sys.stdlib_module_names)


def imported(folder: Path) -> set[str]:
    """Return the top-level modules that a distribution imports, without its test kit's."""
    return {
        module.partition(".")[0]
        for path, tree in trees().items()
        if folder in path.parents and "testing" not in path.parts
        for node in ast.walk(tree)
        for module in _modules(node)
    }


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []
