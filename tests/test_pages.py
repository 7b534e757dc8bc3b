"""All pages and plugin READMEs: commands exist, code compiles, links and anchors are valid."""

from __future__ import annotations

import ast
import importlib
import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from email.message import Message
from itertools import takewhile
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.cli.running import eval_request
from ke_core.plugins.manager import discover
from ke_core.plugins.options import configure, split_options
from ke_core.spec.errors import BadConfig, KEError
from ke_core.spec.specs import DatasetSpec
from ke_weights.composing import registered_wrappers

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for pattern in ("README.md", "*/README.md", "docs/**/*.md", "toolkits/*/README.md", "plugins/*/*/README.md")
    for path in ROOT.glob(pattern)
    if "/docs/site/" not in path.as_posix()
)
READMES = [path for path in PAGES if (path.parent / "pyproject.toml").is_file() and path.parent != ROOT]
COMPONENTS = ("editors", "datasets", "metrics", "judges")
SHELL = ("", "sh")
JOINS = {"|", "||", "&&", ";", ">", ">>", "<", "2>"}
KINDS = {"editors": "editor", "editor": "editor", "dataset": "dataset", "metrics": "metric", "judge": "judge"}
READERS_OWN = re.compile(r"my-|[A-Z]+$|recall$")  # names that the reader chooses or fills in


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[tuple[str, str]]:
    """Yield language and text of each code block."""
    tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    return [(token.info.strip(), token.content) for token in tokens if token.type in ("fence", "code_block")]


def commands(code: str) -> Iterator[list[str]]:
    """Yield the words after ``ke`` of each command in a block."""
    code = re.sub(r"\\\n\s*", " ", code)
    code = re.sub(r"<<'(\w+)'\n.*?\n\1\n", "\n", code, flags=re.DOTALL)  # content that is written into a file
    for line in code.splitlines():
        found = re.match(r"\s*(?:[A-Z_]+=\S+ )*(?:(?:\S*/)?ke|.* -m ke_core) (.*)$", line)
        if found:
            yield list(takewhile(lambda word: word not in JOINS, shlex.split(found[1], comments=True)))


def command_lines(path: Path) -> list[list[str]]:
    """Return the words of each ``ke`` command on a page."""
    return [words for language, code in blocks(path) if language in SHELL for words in commands(code)]


CONFIG = next(code for language, code in blocks(ROOT / "docs" / "command-line.md") if language == "toml")


@pytest.fixture(scope="module")
def app() -> App:
    return App(discover())


@pytest.fixture(scope="module")
def root(app: App) -> click.Group:
    return build(app)


@pytest.fixture(autouse=True)
def no_file_has_to_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _param, _context: value)
    monkeypatch.setattr("ke_core.cli.options.read_toml", lambda _path, error: tomllib.loads(CONFIG))


def understood(root: click.Group, words: list[str], app: App) -> click.Context:
    """Return the click context of the command that ``words`` name, without running it."""
    context = root.make_context("ke", list(words), obj=app)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            break
        title, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(title, rest, parent=context)
    return context


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_commands_on_pages_exist_with_their_options_and_choices(path: Path, root: click.Group, app: App) -> None:
    wrong = {}
    for words in command_lines(path):
        try:
            check_command(root, words, app)
        except click.exceptions.Exit:
            pass  # --help and --version exit here
        except (click.ClickException, KEError, AssertionError) as error:
            wrong[shlex.join(words)] = error
    assert wrong == {}


def check_command(root: click.Group, words: list[str], app: App) -> None:
    """Check that the command, its options and the components that it names exist."""
    context = understood(root, words, app)
    if context.info_name == "eval" and context.params["editors"]:  # otherwise a file names them
        eval_request(context.params["editors"], context.params["dataset"], None, context.params)
    named = [(kind, value) for key, kind in KINDS.items() for value in _several(context.params.get(key))]
    if context.info_name == "show" and "words" in context.params:  # not `ke runs show`
        *kinds, shown = context.params["words"]
        named += [(kind, shown) for kind in kinds or ([] if READERS_OWN.match(shown) else [app.catalog.kind_of(shown)])]
    for kind, value in named:
        if not READERS_OWN.match(value):
            app.catalog.spec(kind, value)
    for prefix, given in split_options(context.params.get("options") or ()).items():
        if not READERS_OWN.match(prefix):
            _configures(app, prefix, given)


@pytest.mark.parametrize(
    "line",
    ["evl", "eval --editr none", "eval --dtype float", "datasets samples atlas", "datasets sample atlas --promts"],
)
def test_unknown_commands_are_detected(line: str, root: click.Group, app: App) -> None:
    with pytest.raises(click.UsageError):
        understood(root, shlex.split(line), app)


def test_show_refuses_an_unknown_kind(app: App, root: click.Group) -> None:
    with pytest.raises(click.UsageError, match="'editr' is not one of"):
        invoke(root, ["show", "editr", "memit"], app)


def _several(value: object) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list | tuple) else [value]) if one]


def _configures(app: App, prefix: str, given: dict[str, str]) -> None:
    """Check that a component of that prefix accepts the options. Missing options are not checked."""
    specs = [app.catalog.spec(kind, title) for kind in app.catalog.registrations for title in app.catalog.names(kind)]
    specs += [spec.builder for spec in specs if isinstance(spec, DatasetSpec) and spec.builder is not None]
    specs += [registration.spec for registration in registered_wrappers(app.plugins).values()]
    found = [spec for spec in specs if spec.prefix == prefix]
    assert found, f"no component has options {prefix}.*"
    errors = []
    for spec in found:
        try:
            configure(spec, given)
        except BadConfig as error:
            errors.append(f"{spec.name}: {error}")
    assert len(errors) < len(found), errors


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_python_blocks_compile_and_import_existing_names(path: Path) -> None:
    for language, code in blocks(path):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ke_core"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_data_blocks_of_pages_are_valid(path: Path) -> None:
    for language, code in blocks(path):
        if language == "toml":
            tomllib.loads(code)
        elif language in ("json", "jsonl"):
            for text in [code] if language == "json" and code.lstrip().startswith("[") else _objects(code):
                json.loads(text)


def _objects(code: str) -> list[str]:
    lines = code.strip().splitlines()
    return lines if all(line.startswith("{") for line in lines) else [code]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_and_anchors_are_valid(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", _prose(path)):
        if "://" in target:
            continue
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"no {target}"
        if anchor:
            assert anchor in anchors(there), f"{target or path.name} has no #{anchor}"


@pytest.mark.parametrize("path", READMES, ids=name)
def test_published_readmes_have_no_relative_links_and_all_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert all("://" in target for target in re.findall(r"\]\(([^)\s#]+)", text))
    for named in re.findall(r"`(docs/[\w./-]+\.md)`", text):
        assert (ROOT / named).is_file(), named
    if path.parent.parent.name not in COMPONENTS:
        return
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    trusted = "How far it can be trusted" if "judges" in path.parts else "What was reproduced"
    assert {"Options", "Citation", "Known limits", trusted} <= {*heads}


def _prose(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    for token in MarkdownIt("commonmark").parse("\n".join(lines)):
        if token.type in ("fence", "code_block") and token.map:
            lines[token.map[0] : token.map[1]] = [""] * (token.map[1] - token.map[0])
    return "\n".join(lines)


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub and the site create for the headings."""
    tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            text = "".join(child.content for child in tokens[at + 1].children or [])
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {f"{slug}-{number}" if number else slug for slug, most in found.items() for number in range(most + 1)}


def test_pages_contain_no_local_paths() -> None:
    for path in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|Users|work)/", path.read_text(encoding="utf-8")), name(path)


# --- the content of the site, without Sphinx ----------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """Return every page of the site by its path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "site")
        for module in ("build", "commands", "components", "pages", "plugin_catalog", "values"):
            patch.setitem(sys.modules, module, None)  # so that they are deleted afterwards
            del sys.modules[module]
        return dict(importlib.import_module("build").everything())


def test_every_page_is_in_the_site(site: dict[str, str]) -> None:
    listed = set(
        re.findall(
            r"^[\w/-]+$", "\n".join(re.findall(r"```\{toctree\}(.*?)```", site["index.md"], re.DOTALL)), re.MULTILINE
        )
    )
    written = {page.removesuffix(".md") for page in site} - {"index"}
    generated = {page for page in written if page.startswith(("reference/commands/", "plugins/", "toolkits/"))}
    assert listed - generated == written - generated


def test_the_reference_covers_every_command_component_option_and_plugin(
    site: dict[str, str], app: App, root: click.Group
) -> None:
    assert all(f"reference/commands/{title}.md" in site for title in root.commands)
    for kind, registrations in app.catalog.registrations.items():
        for title, registration in registrations.items():
            assert f"\n## {title}\n" in site[f"reference/{kind}s.md"]
            if kind not in ("model", "encoder"):
                for option in registration.spec.config.__attrs_attrs__:
                    assert f"`{registration.spec.prefix}.{option.name}`" in site[f"reference/{kind}s.md"]
    for readme in ROOT.glob("plugins/*/*/README.md"):
        assert "## Components" in site[f"plugins/{readme.parent.name}.md"]
    for readme in ROOT.glob("toolkits/*/README.md"):
        assert f"toolkits/{readme.parent.name}.md" in site


def test_the_data_model_page_covers_the_main_classes(site: dict[str, str]) -> None:
    for title in ("Edit", "Case", "Question", "Answer", "RunSpec", "EditorSpec", "Dataset", "Batch", "Generate"):
        assert f"\n### {title}\n" in site["reference/data-model.md"] + site["reference/interfaces.md"]


def test_the_run_folder_page_covers_every_kind_of_record() -> None:
    from ke_core.results.lines import KINDS as RECORDS

    page = (ROOT / "docs" / "run-folder.md").read_text(encoding="utf-8")
    for kind, cls in RECORDS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{kind}` |"))
        fields = [one.name for one in cls.__attrs_attrs__ if one.name != "schema"]  # type: ignore[attr-defined]
        assert re.findall(r"`(\w+)`", row)[1:] == fields


def test_readmes_become_site_pages(site: dict[str, str]) -> None:
    assert "```sh\npip install ke-plugin-memit ke-plugin-atlas\n" in site["plugins/memit.md"]
    assert "](../weight-editors.md)" in site["plugins/memit.md"]
    assert "](../plugins/memit.md)" in site["reference/editors.md"]
    assert "](examples/metric.md)" in site["hooks.md"]


def test_the_first_page_has_four_cards_that_link_to_pages(site: dict[str, str]) -> None:
    cards = re.findall(r"```\{container\} card\n\[(.+?)\]\((.+?)\)", site["index.md"])
    assert [title for title, _page in cards] == [
        "Evaluate methods", "Edit and ship a model", "Write a plugin", "Reference",
    ]  # fmt: skip
    assert all(page in site for _title, page in cards)


def test_the_catalog_lists_every_component_and_command(site: dict[str, str], app: App, root: click.Group) -> None:
    rows = re.findall(r"^\| \[?`([\w -]+)`.*$", site["plugins/index.md"], re.MULTILINE)
    names = [name for kind in app.catalog.registrations for name in app.catalog.names(kind)]
    assert set(names) | set(root.commands) <= set(rows)
    cells = [line.split("|") for line in site["plugins/index.md"].splitlines() if line.startswith("| [")]
    needs = {row[1].split("`")[1]: row[3].strip() for row in cells if len(row) == 6}
    assert needs["memit"] == "open weights; edits with a subject; torch"
    assert needs["mend"] == "open weights; training (`ke train`); torch"
    assert needs["parrot"] == "no model"
    assert needs["openai"] == "a server with OpenAI's HTTP API"
    assert needs["mquake-cf-3k"].startswith("published file")
    assert needs["atlas"] == "no download"


@pytest.mark.parametrize(
    ("urls", "address"),
    [
        (None, ""),
        (["Homepage, https://example.org"], ""),
        (["Homepage, https://example.org", "Repository, https://example.org/ke"], "https://example.org/ke"),
    ],
)
def test_the_site_links_the_repository_that_the_core_declares(
    urls: list[str] | None, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = Message()
    for line in urls or ():
        declared["Project-URL"] = line
    monkeypatch.setattr("importlib.metadata.metadata", lambda _name: declared)
    settings = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))
    assert settings["html_context"] == {"repository": address}
