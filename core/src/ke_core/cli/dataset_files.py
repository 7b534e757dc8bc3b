"""``ke datasets fetch | export``: datasets and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.console import err, out
from ke_core.cli.errors import DONE, FAILED
from ke_core.plugins.options import reject_unused, split_options
from ke_core.runner.resolve import DATA_DIR, ResolvedComponent, resolve_component, with_flag
from ke_core.spec.specs import DatasetSpec


def resolve_dataset(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent[Any]:
    """A dataset by its name, with its options."""
    spec, options = app.catalog.spec("dataset", name), split_options(given)
    reject_unused(options, [spec])
    return resolve_component(app.catalog, "dataset", name, with_flag(spec, options, DATA_DIR, str(data_dir or "")))


def data_folder(source: ResolvedComponent[Any]) -> Path | None:
    """The dataset's option ``data_dir``, however it was given."""
    found: str | None = getattr(source.config, DATA_DIR, None)
    return Path(found).expanduser() if found else None


@click.command("fetch")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@shared.data_dir
@click.pass_obj
def fetch(app: App, names: tuple[str, ...], data_dir: Path | None) -> int:
    """Fetch the published files of datasets.

    They go into the cache, unless they are on this machine already. What comes is compared with a pinned checksum.
    An interrupted download goes on where it stopped when the same command is given again. A file without a pin is not
    fetched: it is said where it is published and where to put it.
    Exit status 1 if a file that is here is not the published one.

    \b
    Example: ke datasets fetch mquake-cf-3k
    """
    from ke_core.results.dataset_files import (  # noqa: PLC0415  only here
        fetched,
        get,
        here,
    )

    status = DONE
    for name in names:
        files = resolve_dataset(app, name, (), None).build().info().files
        if not files:
            out().print(f"{name} comes with its package: there is nothing to fetch", markup=False)
        for file in files:
            if file.pinned and here(file, data_dir) is None:
                err().print(f"fetching {file.url}", markup=False, soft_wrap=True)
            found = get(file, data_dir)
            out().print(fetched(file, found), soft_wrap=True)
            status = FAILED if found.is_published is False else status
    return status


@click.command("export")
@click.argument("name")
@click.option(
    "--out",
    "to",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The file to write, as JSON lines.",
)
@click.option("--force", is_flag=True, help="Write it even if there is one already.")
@shared.component_options
@shared.data_dir
@click.pass_obj
def export(app: App, name: str, *, to: Path, force: bool, options: tuple[str, ...], data_dir: Path | None) -> None:
    """Write the cases of a dataset to a file.

    It is in ke's own format (docs/datasets.md), for other tools or to be changed.
    `ke eval --dataset cases -o cases.file=FILE` evaluates on such a file.

    \b
    Example: ke datasets export atlas --out atlas.jsonl
    """  # fmt: skip
    from ke_core.results.dataset_files import export as write  # noqa: PLC0415  only here
    from ke_core.results.formatting import count_noun  # noqa: PLC0415

    if to.exists() and not force:
        raise click.UsageError(f"{to} exists: say --force to write over it")
    source = resolve_dataset(app, name, options, data_dir)
    assert isinstance(source.spec, DatasetSpec)
    header = write(source.build(), source.spec.for_config(source.config), to)
    out().print(f"{to}: {count_noun(header.cases or 0, 'case')} of {name}", markup=False, soft_wrap=True)
