"""The house rules that no linter knows: small modules, short functions, few parameters, declared imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from ke_testing.contract import MACHINE

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = sorted(
    path.parent
    for path in (
        ROOT / "core/pyproject.toml",
        *ROOT.glob("toolkits/*/pyproject.toml"),
        *ROOT.glob("plugins/*/*/pyproject.toml"),
    )
)
SOURCES = sorted(path for folder in DISTRIBUTIONS for path in (folder / "src").rglob("*.py"))
PROVIDES = {"ke-core": "ke_core", "huggingface-hub": "huggingface_hub"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_module_is_at_most_300_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_functions_are_short_and_take_few_positional_parameters(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno + 1 <= 60, f"{node.name} is too long"
            positional = [a for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            command = any("click" in ast.unparse(decorator) for decorator in node.decorator_list)
            assert command or len(positional) <= 6, f"{node.name} takes {len(positional)} parameters before *"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_nothing_is_left_over(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|FIXME|XXX)\b|raise NotImplementedError\(\)", text)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_json_and_toml_are_read_by_the_shared_reader_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = name(path) == "core/src/ke_core/data/reading.py"
    assert own or not re.search(r"\bjson\.loads?\((?!json\.dumps\()|\btomllib\b", text)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_x1_x2_no_device_and_no_path_of_a_machine_stand_in_the_code(path: Path) -> None:
    assert not MACHINE.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=name)
def test_third_party_imports_are_declared(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (entry for entries in project.get("optional-dependencies", {}).values() for entry in entries)
    entries = (*project.get("dependencies", ()), *extras)
    declared = {re.split(r"[\[<>=!~; ]", entry, maxsplit=1)[0].lower() for entry in entries}
    modules = {PROVIDES.get(entry, entry.replace("-", "_")) for entry in declared}
    own = {path.name for path in (folder / "src").iterdir()}
    used = {
        module.split(".")[0]
        for path in (folder / "src").rglob("*.py")
        if "testing" not in path.parts  # the test kit imports pytest, which its users bring
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for module in _imported(node)
    }
    assert used - modules - own - set(sys.stdlib_module_names) == set()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=name)
def test_entry_point_is_called_like_its_distribution(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert list(project["entry-points"]["ke"]) == [project["name"]]
    assert (folder / "README.md").is_file()
    assert list((folder / "tests").glob("**/test_*.py"))


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=name)
def test_every_distribution_carries_the_licence(folder: Path) -> None:
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=name)
def test_metadata_say_what_an_index_shows_and_name_every_notice(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"description", "readme", "license", "requires-python", "authors", "classifiers"} <= project.keys()
    assert {"Programming Language :: Python :: 3", "Typing :: Typed"} <= {*project["classifiers"]}
    notices = {"LICENSE"} | {
        str(path.relative_to(folder))
        for path in (folder / "src").rglob("*")
        if re.search(r"NOTICE|LICEN[CS]E", path.name)
    }
    assert notices == {*project.get("license-files", ["LICENSE"])}


def test_every_plugin_is_in_requirements_tox_and_import_rules() -> None:
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    listed = re.search(r"\[testenv:plugin-\{(.*)\}\]", (ROOT / "tox.ini").read_text(encoding="utf-8"))
    assert listed is not None
    imports = (ROOT / ".importlinter").read_text(encoding="utf-8")
    for folder in DISTRIBUTIONS:
        assert f"-e ./{name(folder)}\n" in requirements
        if folder.name != "core":
            assert folder.name in listed[1].split(",")
            assert f"ke_plugin_{folder.name.replace('-', '_')}" in imports


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []
