"""Pages about what plugins bring: every component with its options, and each plugin's own page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from commands import cell
from pages import KINDS, ROOT, page, page_of, place

from ke_core.plugins.catalog import Catalog
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.options import describe
from ke_core.spec.specs import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec, ModelSpec, Spec

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
    """``reference/editors.md`` and so on: every component that is installed, from its own specification."""
    for kind, title in TITLES.items():
        lines = [f"# {title} and their options\n", _head(kind)]
        for name in catalog.names(kind):
            lines += _component(kind, catalog, name)
        yield f"reference/{kind}s.md", "\n".join(lines) + "\n"


def _head(kind: str) -> str:
    if kind == "encoder":
        return "Sources of sentence encoders: the part before the colon in an editor's option `encoder`.\n"
    if kind == "model":
        return "Sources of models: the part before the colon in `--model SOURCE:ID`.\n"
    return "An option is set with `-o NAME.OPTION=VALUE`. `ke show NAME` prints the same text.\n"


def _component(kind: str, catalog: Catalog, name: str) -> list[str]:
    offer = catalog.offer(kind, name)
    spec = offer.spec
    distribution = offer.plugin.distribution or offer.plugin.name
    lines = [f"## {name}\n", f"{cell(spec.summary)[:1].upper()}{cell(spec.summary)[1:]}. {origin(distribution)}\n"]
    lines += [f"- {trait}" for trait in traits(spec)]
    lines.append("")
    if kind not in WITHOUT_OPTIONS:
        lines += options(spec)
    if isinstance(spec, DatasetSpec) and spec.builder is not None:
        lines += [f"Options of its builder (`ke build {name}`):\n", *options(spec.builder)]
    if spec.cite:
        lines.append(f"Cite: {cell(spec.cite)}\n")
    return lines


def origin(distribution: str) -> str:
    """Where a component comes from, with a link to that plugin's page."""
    return f"From [{distribution}](../{page_of(distribution)})."


def options(spec: Spec[Any]) -> list[str]:
    """A component's options, as a list of definitions."""
    found = describe(spec)
    if not found:
        return ["It has no options.\n"]
    return [
        f"`{spec.prefix}.{option.name}`\n: {cell(option.help)} ({cell(option.type)}; default: `{option.default}`)\n"
        for option in found
    ]


def traits(spec: Spec[Any]) -> list[str]:
    """What else its specification says of it."""
    match spec:
        case EditorSpec():
            told = {
                "changes the model's weights": spec.editor_kind == "weight editor",
                "adds state to the forward pass and leaves the weights unchanged": spec.adaptor,
                "leaves the model unchanged": spec.editor_kind == "memory editor",
                "needs no model": not spec.needs_model,
                "takes one edit at a time": spec.one_at_a_time,
                "can hide edits from a case": spec.masks,
                "asks with prompts of its own": spec.own_prompt,
                f"must be trained first: [`ke train {spec.name}`](commands/train.md)": spec.trainer is not None,
                f"the fact of an edit is asked as a {spec.edited_form}": True,
            }
            return [trait for trait, holds in told.items() if holds]
        case DatasetSpec():
            return _listed(
                {"aspects": spec.aspects, "styles": spec.styles, "metrics": spec.metrics, "judge": (spec.judge,)}
            )
        case MetricSpec():
            return _listed({"aspects": tuple(spec.columns), "broken down by": spec.by})
        case JudgeSpec():
            labels = tuple(label for group in spec.labels.values() for label in group)
            return [*(["asks a model"] if spec.needs_model else []), *_listed({"labels": labels})]
        case ModelSpec():
            return [
                f"knows `{model.name}`: {model.summary} ({model.size_mb} MB, {model.license})" for model in spec.known()
            ]
        case _:
            return []


def _listed(told: dict[str, Sequence[str]]) -> list[str]:
    return [f"{what}: {', '.join(f'`{name}`' for name in names)}" for what, names in told.items() if any(names)]


def plugin_pages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Each plugin's README, with what it brings; and the list of plugins, by kind."""
    toc = []
    lists = []
    for kind in KINDS:
        rows = []
        for readme in sorted((ROOT / "plugins" / kind).glob("*/README.md")):
            name = readme.parent.name
            brought = _brought(catalog, f"ke-plugin-{name}")
            yield place(readme) or "", f"{page(readme)}\n## What it brings\n\n{_table(brought)}"
            rows.append(f"| [`{name}`]({name}.md) | {_summaries(brought)} |")
            toc.append(name)
        lists.append(f"## {kind.capitalize()}\n\n| plugin | brings |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    head = (
        "# Plugins\n\nThe plugins of this repository. Each is a distribution of its own: "
        "`pip install ke-plugin-NAME`. [`ke plugins`](../reference/commands/plugins.md) lists the installed ones.\n\n"
    )
    tail = "```{toctree}\n:hidden:\n\n" + "\n".join(["ke-core", *toc]) + "\n```\n"
    yield "plugins/index.md", head + "\n".join(lists) + "\n" + tail
    yield "plugins/ke-core.md", page(ROOT / "core/README.md")


def toolkit_pages() -> Iterator[tuple[str, str]]:
    """Each toolkit's README, and the list of toolkits."""
    readmes = sorted((ROOT / "toolkits").glob("*/README.md"))
    for readme in readmes:
        yield place(readme) or "", page(readme)
    rows = "".join(f"- [`ke-{readme.parent.name}`]({readme.parent.name}.md)\n" for readme in readmes)
    toc = "\n".join(readme.parent.name for readme in readmes)
    head = "# Toolkits\n\nLibraries that plugins build on. They are installed with the plugins that need them.\n\n"
    yield "toolkits/index.md", f"{head}{rows}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"


def directory_page() -> Iterator[tuple[str, str]]:
    """The list that ``ke plugins search`` reads."""
    head = (
        "# Known plugins\n\nWhat [`ke plugins search`](commands/plugins.md) knows of, installed or not. The list comes "
        "with ke; `ke plugins search --directory FILE|URL` reads a newer one, such as `_static/directory.json` of this "
        "site; [how yours gets onto it](../tutorials/publish.md#5-be-found).\n\n"
        "| name | kind | what it does | `ke plugins install` |\n| --- | --- | --- | --- |\n"
    )
    rows = (
        f"| `{one.name}` | {one.kind} | {cell(one.summary)} | `{one.distribution.removeprefix('ke-plugin-')}` |\n"
        for one in directory_entries()
    )
    yield "reference/directory.md", head + "".join(rows)


def _brought(catalog: Catalog, plugin: str) -> list[tuple[str, Spec[Any]]]:
    return [(kind, spec) for kind, spec in catalog.of(plugin) if kind in TITLES]


def _table(brought: Sequence[tuple[str, Spec[Any]]]) -> str:
    rows = [
        f"| {kind} | [`{spec.name}`](../reference/{kind}s.md#{spec.name}) | {cell(spec.summary)} |"
        for kind, spec in brought
    ]
    return "| kind | name | |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _summaries(brought: Sequence[tuple[str, Spec[Any]]]) -> str:
    shown = [f"`{spec.name}`: {cell(spec.summary)}" for _kind, spec in brought[:2]]
    more = len(brought) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
