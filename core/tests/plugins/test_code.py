"""The digest of a plugin's code changes with its source files, and with nothing else."""

import shutil
import sys
from types import ModuleType

import pytest

from ke_core.plugins import code
from ke_core.plugins.code import code_digest
from ke_core.plugins.manager import Installed


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package called toy_code, or another module, and import it from there."""

    def made(files, *, name="toy_code", at="src"):
        root = tmp_path / at
        for inner, text in files.items():
            (root / inner).parent.mkdir(parents=True, exist_ok=True)
            (root / inner).write_text(text)
        module = ModuleType(name)
        module.__file__ = str(root / next(iter(files)))
        monkeypatch.setitem(sys.modules, name, module)
        code._package_digest.cache_clear()
        return root

    yield made
    code._package_digest.cache_clear()


FILES = {"toy_code/__init__.py": "x = 1", "toy_code/editor.py": "y = 2", "toy_code/prompts/direct.txt": "Q:"}


def of(module="toy_code", distribution="ke-plugin-toy", requires=(), others=()):
    return code_digest(Installed(name="toy", module=module, distribution=distribution, requires=requires), others)


@pytest.mark.parametrize("changed", [*FILES, "toy_code/new.py", "toy_code/prompts/cot.txt"])
def test_changed_or_new_file_changes_the_digest(package, changed):
    package(FILES)
    before = of()
    assert len(before) == code.LENGTH
    package({**FILES, changed: "z = 3"})
    assert of() != before


def test_digest_ignores_compiled_and_hidden_files(package):
    root = package(FILES)
    before = of()
    for name in ("__pycache__/editor.cpython-311.pyc", "editor.pyc", ".DS_Store", ".ipynb_checkpoints/a.py"):
        (root / "toy_code" / name).parent.mkdir(exist_ok=True)
        (root / "toy_code" / name).write_text("anything")
    code._package_digest.cache_clear()
    assert of() == before


def test_editable_installation_and_copy_have_the_same_digest(package, tmp_path):
    package(FILES)
    before = of()
    shutil.copytree(tmp_path / "src", tmp_path / "site-packages")
    package(FILES, at="site-packages")
    assert of() == before


def test_digest_of_a_module_without_package_is_of_its_file(package):
    root = package({"toy_code.py": "x = 1"})
    before = of("toy_code:Plugin")
    (root / "other.py").write_text("x = 2")
    code._package_digest.cache_clear()
    assert of("toy_code:Plugin") == before != ""


def test_digest_ignores_other_packages_of_a_namespace(package, monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_space", ModuleType("toy_space"))
    root = package({"toy_space/one/__init__.py": "x = 1"}, name="toy_space.one")
    before = of("toy_space.one")
    (root / "toy_space" / "two.py").write_text("x = 2")
    code._package_digest.cache_clear()
    assert of("toy_space.one") == before != ""


def test_digest_includes_only_required_plugins(package):
    package(FILES)
    others = [Installed(name="o", module="toy_other", distribution="ke-plugin-Other")]
    package({"toy_other/__init__.py": "x = 1"}, name="toy_other", at="other")
    alone, needing = of(others=others), of(requires=("ke_plugin_other>=0.1", "???"), others=others)
    package({"toy_other/__init__.py": "x = 2"}, name="toy_other", at="other")
    assert of(others=others) == alone != needing
    assert of(requires=("ke_plugin_other>=0.1",), others=others) != needing


def test_a_plugin_without_files_has_no_digest():
    assert of("registered_by_a_test") == ""
