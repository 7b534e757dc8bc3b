"""``ke datasets fetch | export | validate``: datasets and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.console import err, out
from ke_core.cli.errors import DONE, FAILED
from ke_core.data.codec import to_json
from ke_core.data.queries import Case
from ke_core.errors import BadData
from ke_core.plugins.options import reject_unused, split_options
from ke_core.protocols import Dataset
from ke_core.run.components import DATA_DIR, ResolvedComponent, resolve_component, with_flag
from ke_core.specs import DatasetSpec


def chosen(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent:
    """A dataset by its name, with its options."""
    spec, options = app.catalog.spec("dataset", name), split_options(given)
    reject_unused(options, [spec])
    return resolve_component(app.catalog, "dataset", name, with_flag(spec, options, DATA_DIR, str(data_dir or "")))


def data_folder(source: ResolvedComponent) -> Path | None:
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
    from ke_core.datasets.handling import get, here  # noqa: PLC0415  only here
    from ke_core.report.datasets import fetched  # noqa: PLC0415

    status = DONE
    for name in names:
        files = chosen(app, name, (), None).build().info().files
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
    from ke_core.datasets.handling import export as write  # noqa: PLC0415  only here
    from ke_core.report.numbers import count_noun  # noqa: PLC0415

    if to.exists() and not force:
        raise click.UsageError(f"{to} exists: say --force to write over it")
    source = chosen(app, name, options, data_dir)
    assert isinstance(source.spec, DatasetSpec)
    header = write(source.build(), source.spec.for_config(source.config), to)
    out().print(f"{to}: {count_noun(header.cases or 0, 'case')} of {name}", markup=False, soft_wrap=True)


@click.command("validate")
@click.argument("name", metavar="NAME|FILE")
@shared.json_option
@shared.component_options
@shared.data_dir
@click.pass_obj
def validate(app: App, name: str, *, as_json: bool, options: tuple[str, ...], data_dir: Path | None) -> int:
    """Check the cases of a dataset, or of a file.

    The file is one that `ke datasets export` wrote, or like it.
    Errors: a record that does not read, ids that are not unique, a question without a right answer, a bare id in
    place of a label, a chain that breaks or goes in a circle, an edit that changes nothing or whose cloze is about
    something else. Warnings: an alias that is another thing's label, an edit that no question tests.
    Published records of some datasets are known to break some of these rules: there such errors are warnings.
    Exit status 1 if there is an error, 0 if there are warnings only.

    \b
    Examples:
      ke datasets validate mquake-cf-3k --data-dir ~/data
      ke datasets validate atlas.jsonl --json
    """
    from ke_core.datasets.handling import validate as check  # noqa: PLC0415  only here
    from ke_core.report.datasets import validated  # noqa: PLC0415

    cases, known_flaws = _cases(app, name, options, data_dir)
    found = check(cases, known_flaws=known_flaws)
    if as_json:
        shared.print_json({"name": name, "cases": found.cases, "problems": to_json(found.problems)})
    else:
        out().print(validated(name, found))
    return FAILED if found.errors else DONE


def _cases(
    app: App, name: str, options: tuple[str, ...], data_dir: Path | None
) -> tuple[Iterable[Case | BadData], frozenset[str]]:
    """The cases and known flaws of a dataset if there is one of that name, else the cases of the file."""
    from ke_core.datasets.case_files import scan_cases  # noqa: PLC0415  only here
    from ke_core.datasets.handling import readable  # noqa: PLC0415

    if name in app.catalog.names("dataset") or not (Path(name).is_file() or Path(name).suffix):
        dataset: Dataset = chosen(app, name, options, data_dir).build()
        return readable(dataset), dataset.info().known_flaws
    if options or data_dir:
        raise click.UsageError(f"{name} is a file: it takes no -o and no --data-dir")
    return scan_cases(Path(name)), frozenset()
