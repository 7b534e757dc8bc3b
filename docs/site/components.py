"""Reference pages of the components, with their options, and a page for each plugin and toolkit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from commands import cell
from pages import KINDS, ROOT, page, page_of, place
from plugin_catalog import catalog_page

from ke_core.app import App
from ke_core.cli.show import traits
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.options import describe
from ke_core.spec.component import Spec
from ke_core.spec.specs import DatasetSpec

TITLES = {
    "editor": "Editors",
    "dataset": "Datasets",
    "metric": "Metrics",
    "judge": "Judges",
    "model": "Model sources",
    "encoder": "Encoders",
}
WITHOUT_OPTIONS = ("model", "encoder")


def component_pages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield ``reference/editors.md`` and so on: every installed component, from its specification."""
    for kind, title in TITLES.items():
        lines = [f"# {title} and their options\n", _head(kind)]
        for name in catalog.names(kind):
            lines += _component(kind, catalog, name)
        yield f"reference/{kind}s.md", "\n".join(lines) + "\n"


def _head(kind: str) -> str:
    if kind == "encoder":
        return "Sources of sentence encoders: the part before the colon in an editor's option `encoder`.\n"
    if kind == "model":
        return "The part before the colon in `--model SOURCE:ID`. Options of the commands set how a model is loaded.\n"
    return "Set an option with `-o NAME.OPTION=VALUE`. `ke show NAME` prints the same information.\n"


def _component(kind: str, catalog: Catalog, name: str) -> list[str]:
    registration = catalog.registration(kind, name)
    spec = registration.spec
    distribution = registration.plugin.distribution or registration.plugin.name
    lines = [f"## {name}\n", f"{cell(spec.summary)[:1].upper()}{cell(spec.summary)[1:]}. {origin(distribution)}\n"]
    lines += [f"- {cell(trait)}" for trait in traits(spec)]
    lines.append("")
    if kind not in WITHOUT_OPTIONS:
        lines += options(spec)
    if isinstance(spec, DatasetSpec) and spec.builder is not None:
        lines += [f"Options of its builder (`ke build {name}`):\n", *options(spec.builder)]
    if spec.cite:
        lines.append(f"Cite: {cell(spec.cite)}\n")
    return lines


def origin(distribution: str) -> str:
    """Return the distribution of a component, with a link to its page."""
    return f"From [{distribution}](../{page_of(distribution)})."


def options(spec: Spec[Any]) -> list[str]:
    """Return the options of a component as a definition list."""
    found = describe(spec)
    if not found:
        return ["It has no options.\n"]
    return [
        f"`{spec.prefix}.{option.name}`\n: {cell(option.help)} ({cell(option.type)}; default: `{option.default}`)\n"
        for option in found
    ]


def plugin_pages(app: App, root: click.Group) -> Iterator[tuple[str, str]]:
    """Yield each plugin's README with its components, and the catalog of all plugins."""
    toc = []
    for kind in KINDS:
        for readme in sorted((ROOT / "plugins" / kind).glob("*/README.md")):
            name = readme.parent.name
            brought = [(kind, spec) for kind, spec in app.catalog.of(f"ke-plugin-{name}") if kind in TITLES]
            yield place(readme) or "", f"{page(readme)}\n## Components\n\n{_table(brought)}"
            toc.append(name)
    tail = "\n```{toctree}\n:hidden:\n\n" + "\n".join(["ke-core", *toc]) + "\n```\n"
    yield "plugins/index.md", catalog_page(app, root) + tail
    yield "plugins/ke-core.md", page(ROOT / "core/README.md")


def toolkit_pages() -> Iterator[tuple[str, str]]:
    """Yield each toolkit's README, and the list of toolkits."""
    readmes = sorted((ROOT / "toolkits").glob("*/README.md"))
    for readme in readmes:
        yield place(readme) or "", page(readme)
    rows = "".join(f"- [`ke-{readme.parent.name}`]({readme.parent.name}.md)\n" for readme in readmes)
    toc = "\n".join(readme.parent.name for readme in readmes)
    head = "# Toolkits\n\nLibraries that plugins build on. They are installed with the plugins that need them.\n\n"
    yield "toolkits/index.md", f"{head}{rows}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"


def directory_page() -> Iterator[tuple[str, str]]:
    """Yield the list that ``ke plugins search`` reads."""
    head = (
        "# Known plugins\n\n[`ke plugins search`](commands/plugins.md) searches this list, which includes plugins that "
        "are not installed. It comes with ke. To add your plugin, see "
        "[Publish a plugin](../tutorials/publish.md#5-add-it-to-the-plugin-directory).\n\n"
        "| name | kind | what it does | `ke plugins install` |\n| --- | --- | --- | --- |\n"
    )
    rows = (
        f"| `{one.name}` | {one.kind} | {cell(one.summary)} | `{one.distribution.removeprefix('ke-plugin-')}` |\n"
        for one in directory_entries()
    )
    yield "reference/directory.md", head + "".join(rows)


def _table(brought: Sequence[tuple[str, Spec[Any]]]) -> str:
    rows = [
        f"| {kind} | [`{spec.name}`](../reference/{kind}s.md#{spec.name}) | {cell(spec.summary)} |"
        for kind, spec in brought
    ]
    return "| kind | name | what it does |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
