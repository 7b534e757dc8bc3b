"""Templates of ``ke new``: content, options and errors."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from attrs import frozen

from ke_core.app import Catalog, empty_manager, read_catalog
from ke_core.plugin import BadConfig, JudgeSpec, hookimpl
from ke_testing.scaffold.write import KINDS, LICENSES, STYLES, TemplateOptions, contents, write

ROOT = Path(__file__).parents[4]
TEMPLATES = ("editor-memory", "editor-weight", "editor-adaptor", "dataset", "metric", "judge")


@frozen
class Config:
    pass


@pytest.fixture
def catalog() -> Catalog:
    return read_catalog(empty_manager())


def plan(template: str = "judge", name: str = "my-own", **more: str) -> TemplateOptions:
    kind, _, style = template.partition("-")
    return TemplateOptions(kind=kind, name=name, style=style or STYLES[0], **more)


def test_every_kind_and_style_has_a_template() -> None:
    assert {plan(template).kind for template in TEMPLATES} == set(KINDS)
    assert {plan(template).template for template in TEMPLATES} == set(TEMPLATES)
    folder = ROOT / "toolkits/testing/src/ke_testing/scaffold/templates"
    assert {path.name for path in folder.iterdir()} == {"common", *TEMPLATES}


@pytest.mark.parametrize("template", TEMPLATES)
def test_distribution_is_complete(template: str, tmp_path: Path, catalog: Catalog) -> None:
    folder = write(plan(template), tmp_path, catalog)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {path for path, _text in contents(plan(template))}
    assert found >= {
        "LICENSE", "README.md", "pyproject.toml", "tox.ini", "src/ke_plugin_my_own/__init__.py",
        "src/ke_plugin_my_own/py.typed", "tests/test_contract.py",
    }  # fmt: skip
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["ke"] == {"ke-plugin-my-own": "ke_plugin_my_own"}
    assert "ke-core>=0.1,<0.2" in project["dependencies"]
    assert ("torch>=2.6" in project["dependencies"]) == (template in ("editor-weight", "editor-adaptor"))
    imported = set(
        re.findall(r"from (ke_\w+)", (folder / f"src/ke_plugin_my_own/{plan(template).kind}.py").read_text())
    )
    declared = {re.split(r"[>\[]", one)[0].replace("-", "_") for one in project["dependencies"]}
    init = (folder / "src/ke_plugin_my_own/__init__.py").read_text()
    named = re.findall(r'(?:judge="|metrics=\(")([\w-]+)', init)
    used = imported - {"ke_plugin_my_own"} | {f"ke_plugin_{name}" for name in named}
    assert used == {one for one in declared if one.startswith("ke_")}
    assert {"authors", "classifiers"} <= project.keys()
    assert "## Citation" in (folder / "README.md").read_text()
    assert 'cite=""' in init


@pytest.mark.parametrize("template", TEMPLATES)
def test_readme_installs_what_its_command_uses(template: str) -> None:
    readme = dict(contents(plan(template)))["README.md"]
    installed = re.findall(r"ke-plugin-([\w-]+)", readme[readme.index("pip install") :].splitlines()[0])
    command = next(line for line in readme.splitlines() if line.startswith("    ke eval"))
    used = set(re.findall(r"--(?:editor|dataset|metric|judge) ([\w-]+)", command))
    models = {"hf"} if plan(template).kind != "editor" else set()  # the toolkits of editors depend on ke-plugin-hf
    assert used | models == set(installed)


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_template_variable_is_left(template: str) -> None:
    for path, text in contents(plan(template)):
        assert "$" not in path + text
        assert ".tmpl" not in path
        if path.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize("license", LICENSES)
def test_requested_license_is_written(license: str) -> None:
    made = dict(contents(plan(license=license)))
    assert tomllib.loads(made["pyproject.toml"])["project"]["license"] == license
    if license != "Apache-2.0":
        assert "the authors of ke-plugin-my-own" in made["LICENSE"]
    assert len(made["LICENSE"]) > 1000


@pytest.mark.integration
@pytest.mark.parametrize("name", ["swap", "a-name-as-long-as-a-name-may-ever-be-ok", "3d", "none", "case", "judge"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_pass_ruff(template: str, name: str, tmp_path: Path) -> None:
    made = plan(template, name)
    for path, text in contents(made):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for words in (["format", "--check"], ["check"]):
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("My_Method", "ke new judge my-method"),
        ("my method", "ke new judge my-method"),
        ("-x-", "ke new judge x"),
        ("", "use a name such as my-method"),
        ("../up", "ke new judge up"),
        ("x" * 41, f"ke new judge {'x' * 40}"),
    ],
)
def test_invalid_name_error_suggests_a_valid_one(name: str, hint: str, tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(BadConfig, match="invalid plugin name") as told:
        write(plan(name=name), tmp_path, catalog)
    assert told.value.hint == hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("template", "name"), [("editor-memory", "rome"), ("dataset", "mquake-cf-3k"), ("metric", "rome")]
)
def test_name_in_the_directory_is_rejected(template: str, name: str, tmp_path: Path, catalog: Catalog) -> None:
    """For its kind, and for its distribution: two cannot share a place on an index."""
    with pytest.raises(BadConfig, match=f"'{name}' of ke-plugin-.* has that name"):
        write(plan(template, name), tmp_path, catalog)


def test_registered_name_is_rejected(tmp_path: Path) -> None:
    class Mine:
        @hookimpl
        def ke_judges(self) -> list[JudgeSpec]:
            return [JudgeSpec(name="my-own", summary="s", config=Config, build=lambda _config: None)]

    plugins = empty_manager()
    plugins.register(Mine(), "somebodys")
    with pytest.raises(BadConfig, match="judge 'my-own' of somebodys has that name"):
        write(plan(), tmp_path, read_catalog(plugins))


def test_existing_folder_is_unchanged(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "ke-plugin-my-own").mkdir()
    with pytest.raises(BadConfig, match="ke-plugin-my-own already exists"):
        write(plan(), tmp_path, catalog)
    assert list((tmp_path / "ke-plugin-my-own").iterdir()) == []


def test_failed_write_leaves_nothing(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    real, written = Path.write_text, []

    def fails(path: Path, text: str, **more: str) -> int:
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "no space left on device")
        return real(path, text, **more)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(OSError, match="no space"):
        write(plan(), tmp_path, catalog)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_templates_pass_mypy(tmp_path: Path, catalog: Catalog) -> None:
    folders = [write(plan(template, f"swap-{n}"), tmp_path, catalog) / "src" for n, template in enumerate(TEMPLATES)]
    packages = [str(next(folder.glob("ke_plugin_*"))) for folder in folders]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), *packages]
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nmypy_path = {':'.join(map(str, folders))}\n"
        "[mypy-transformers.*,gguf.*,accelerate.*,safetensors.*,peft.*]\nfollow_imports = skip\n"
    )
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_class_names_are_valid_identifiers() -> None:
    assert [plan(name=name).stem for name in ("my-own", "3d", "none")] == ["MyOwn", "Ke3d", "None"]
    for template in TEMPLATES:
        classes = re.findall(
            r"^class (\w+)", "\n".join(text for _, text in contents(plan(template, "none"))), re.MULTILINE
        )
        assert all(name.isidentifier() and name != "None" for name in classes)
