"""``ke datasets``: list, count and sample benchmarks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.console import out
from ke_core.plugins.manager import Installed
from ke_core.plugins.options import reject_unused, split_options
from ke_core.results.dataset_files import case_sheet
from ke_core.results.formatting import count_noun, literal, plain_table
from ke_core.runner.plan import select
from ke_core.runner.resolve import DATA_DIR, ResolvedComponent, resolve_component, with_flag
from ke_core.spec.protocols import Dataset
from ke_core.spec.runspec import Plan


@click.group("datasets")
def command() -> None:
    """List benchmarks, count and sample their cases; fetch, check and export them.

    \b
    Example: ke datasets stats atlas
    """


@command.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the installed datasets."""
    table = plain_table("dataset", "summary", "judge", "metrics", "plugin")
    table.shorten, table.drop = "summary", ("plugin", "metrics", "judge")
    for name in app.catalog.names("dataset"):
        offer = app.catalog.offer("dataset", name)
        judge, metrics = getattr(offer.spec, "judge", ""), getattr(offer.spec, "metrics", ())
        row = (name, offer.spec.summary, judge, ", ".join(metrics), _plugin(offer.plugin))
        table.add_row(*(literal(text) for text in row))
    shared.require_some(app, "dataset")
    out().print(table)


@command.command("info")
@click.argument("name")
@shared.component_options
@shared.data_dir
@click.pass_obj
def info(app: App, name: str, options: tuple[str, ...], data_dir: Path | None) -> None:
    """Print what a dataset is, and where its files are.

    License, source, citation and published counts; of each file its size, and where it is looked for.

    \b
    Example: ke datasets info mquake-cf-3k --data-dir ~/data
    """
    from ke_core.results.dataset_files import about, file_sheet, local_file  # noqa: PLC0415
    from ke_core.storage.files import data_places  # noqa: PLC0415

    source = resolve_dataset(app, name, options, data_dir)
    found, folder = source.build().info(), data_folder(source)
    out().print(about(found), soft_wrap=True)
    for file in found.files:
        places = data_places(file.family, file.name, folder)
        out().print(file_sheet(file, local_file(file, folder), places), soft_wrap=True)


@command.command("stats")
@click.argument("name")
@shared.component_options
@shared.data_dir
@click.pass_obj
def stats(app: App, name: str, options: tuple[str, ...], data_dir: Path | None) -> int:
    """Count a dataset, next to the counts that its publishers state.

    Exit status 1 if a count differs from the published one.

    \b
    Example: ke datasets stats mquake-cf-3k --data-dir ~/data
    """
    from ke_core.results.dataset_files import count_cases  # noqa: PLC0415  only here

    dataset = _build(app, name, options, data_dir)
    counts, published = count_cases(dataset.cases()), dataset.info().published
    table = plain_table("count", "here", "published", "")
    table.columns[1].justify = table.columns[2].justify = "right"
    differ = 0
    for label in dict.fromkeys((*counts, *published)):
        found, printed = counts.get(label), published.get(label)
        differs = printed is not None and found != printed
        differ += differs
        table.add_row(literal(label), _number(found), _number(printed), "differs" if differs else "")
    shown: list[RenderableType] = [literal(f"{name}: {dataset.info().title}", "bold"), table]
    if published:
        shown.append(
            literal(f"not met: {count_noun(differ, 'published count')}" if differ else "every published count is met")
        )
    out().print(Group(*shown))
    return int(differ > 0)


@command.command("sample")
@click.argument("name")
@click.option("-n", "number", type=click.IntRange(1), default=3, show_default=True, help="How many cases.")
@click.option("--seed", default=None, type=int, help="Sample the cases with this seed, as ke eval does.")
@click.option("--case", "case_id", default="", metavar="ID", help="Only this case.")
@click.option("--prompts", "with_prompts", is_flag=True, help="Also the text put to the model, whole.")
@shared.component_options
@shared.data_dir
@click.pass_obj
def sample(
    app: App, name: str, *, number: int, seed: int | None, case_id: str, with_prompts: bool,
    options: tuple[str, ...], data_dir: Path | None,
) -> None:  # fmt: skip
    """Print cases of a dataset as a person reads them: edits, questions, right answers.

    \b
    Example: ke datasets sample atlas -n 1 --prompts
    """
    dataset = _build(app, name, options, data_dir)
    if case_id:
        cases = [case for case in dataset.cases() if case.id == case_id]
        if not cases:
            raise click.UsageError(f"{name} has no case {case_id!r}")
    elif seed is None:
        cases = list(islice(dataset.cases(), number))
    else:
        cases = list(select(list(dataset.cases()), Plan(limit=number), seed))
    styles = getattr(app.catalog.spec("dataset", name), "styles", ())
    for case in cases:
        out().print(case_sheet(case, dataset, styles if with_prompts else ()))


def resolve_dataset(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent[Any]:
    """A dataset by its name, with its options."""
    spec, options = app.catalog.spec("dataset", name), split_options(given)
    reject_unused(options, [spec])
    return resolve_component(app.catalog, "dataset", name, with_flag(spec, options, DATA_DIR, str(data_dir or "")))


def data_folder(source: ResolvedComponent[Any]) -> Path | None:
    """The dataset's option ``data_dir``, however it was given."""
    found: str | None = getattr(source.config, DATA_DIR, None)
    return Path(found).expanduser() if found else None


def _build(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> Dataset:
    dataset: Dataset = resolve_dataset(app, name, given, data_dir).build()
    return dataset


def _plugin(plugin: Installed) -> str:
    return (plugin.distribution or plugin.name).removeprefix("ke-plugin-")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
