"""The catalog page: every installed component and command, with its requirements, citation and plugin page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires

import click
from attrs import fields_dict
from commands import cell, loaded
from packaging.requirements import Requirement
from pages import page_of

from ke_core.app import App
from ke_core.plugins.catalog import Catalog, Registration
from ke_core.plugins.options import configure
from ke_core.spec.errors import KEError
from ke_core.spec.specs import DatasetSpec, EditorSpec, JudgeSpec, ModelSpec

KINDS = {
    "editor": ("Editors", "`ke eval --editor NAME`, `ke edit --editor NAME`"),
    "dataset": ("Datasets", "`ke eval --dataset NAME`"),
    "metric": ("Metrics", "`ke eval --metric NAME`, `ke score --metric NAME`"),
    "judge": ("Judges", "`ke eval --judge NAME`, `ke judge --judge NAME`"),
    "model": ("Models", "`--model NAME:ID`"),
    "encoder": ("Encoders", "the option `encoder` of an editor: `NAME:ID`"),
}
URL = re.compile(r"https?://(arxiv\.org/abs/)?([^\s;,)]*[^\s;,.)])")
HEAD = """# Plugin catalog

All plugins of this repository, generated from the installed distributions. Use it to choose a component by its
requirements. Install one with `ke plugins install NAME`. [`ke plugins`](../reference/commands/plugins.md) lists your
installed plugins, and `ke show KIND NAME` prints the options of one component.

- **open weights**: needs a model that is loaded in this process, because the method reads or changes its weights.
- **any model**: also works with [a model behind a server](../black-box.md), over HTTP.
- **torch**: the distribution installs PyTorch.

"""


def catalog_page(app: App, root: click.Group) -> str:
    """Return ``plugins/index.md`` without its table of contents. ``root`` is the command group built for ``app``."""
    parts = [HEAD]
    for kind, (title, use) in KINDS.items():
        rows = (_row(app.catalog, kind, name) for name in _by_plugin(app.catalog, kind))
        parts.append(_section(title, f"Select with {use}.", ("Needs", "Citation"), rows))
    parts.append(_section("Commands", "Run as `ke NAME`.", (), _commands(app, root)))
    return "\n".join(parts)


def _section(title: str, use: str, columns: Sequence[str], rows: Iterator[str]) -> str:
    heads = ("Name", "What it does", *columns)
    table = [f"| {' | '.join(heads)} |", "| " + " | ".join("---" for _head in heads) + " |", *rows]
    return f"## {title}\n\n{use}\n\n```{{container}} catalog\n" + "\n".join(table) + "\n```\n"


def _by_plugin(catalog: Catalog, kind: str) -> list[str]:
    return sorted(catalog.names(kind), key=lambda name: (catalog.registration(kind, name).plugin.name, name))


def _row(catalog: Catalog, kind: str, name: str) -> str:
    registration = catalog.registration(kind, name)
    needs = "; ".join(requirements(registration)) or "-"
    summary = f"{cell(registration.spec.summary)} ([options](../reference/{kind}s.md#{name}))"
    return (
        f"| {_linked(name, registration.plugin.name)} | {summary} | {needs} | {_cite(registration.spec.cite) or '-'} |"
    )


def _linked(name: str, distribution: str) -> str:
    place = page_of(distribution)
    return f"[`{name}`](../{place})" if place else f"`{name}`"


def _cite(text: str) -> str:
    """Return a citation with its addresses as links, those of arXiv by their number."""
    return URL.sub(lambda found: f"[{'arXiv:' if found[1] else ''}{found[2]}]({found[0]})", cell(text))


def _commands(app: App, root: click.Group) -> Iterator[str]:
    for plugin in sorted(app.plugins.installed):
        for name in app.commands_of(plugin):
            parent, _, child = name.partition(" ")
            command = loaded(root.commands[parent])
            anchor = ""
            if child:
                assert isinstance(command, click.Group)
                command, anchor = command.commands[child], f"#ke-{parent}-{child}"
            summary = " ".join((command.help or "").split("\n\n")[0].split())
            options = f"[options](../reference/commands/{parent}.md{anchor})"
            yield f"| {_linked(name, plugin)} | {cell(summary)} ({options}) |"


def requirements(registration: Registration) -> list[str]:
    """Return what a component needs: kind of model, data, training, and heavy libraries."""
    spec = registration.spec
    needs: list[str] = []
    match spec:
        case EditorSpec():
            needs.append("open weights" if spec.needs_weights else "any model" if spec.needs_model else "no model")
            needs += ["training (`ke train`)"] if spec.trainer is not None else []
            needs += ["edits with a subject"] if spec.needs_subject else []
            needs += ["sentence encoder"] if "encoder" in fields_dict(spec.config) else []
        case DatasetSpec():
            needs.append(_data(spec))
        case JudgeSpec():
            needs += ["a judge model"] if spec.needs_model else []
        case ModelSpec():
            needs.append("a server with OpenAI's HTTP API" if spec.remote else "a local folder or the hub")
    return needs + (["torch"] if installs(registration.plugin.distribution, "torch") else [])


def _data(spec: DatasetSpec) -> str:
    try:
        files = spec.build(configure(spec)).info().files
    except KEError:
        return "a file of your own"
    if not files:
        return "no download"
    return "published file (downloaded)" if all(file.pinned for file in files) else "published file (from its authors)"


@cache
def installs(distribution: str, library: str) -> bool:
    """Return whether installing ``distribution`` also installs ``library``, through other parts of ke or directly."""
    try:
        wanted = [Requirement(line) for line in requires(distribution) or ()]
    except PackageNotFoundError:
        return False
    names = [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return library in names or any(installs(name, library) for name in names if name.startswith("ke-"))
