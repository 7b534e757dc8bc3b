"""``ke datasets export``: write the cases of a dataset to a file."""

from __future__ import annotations

from pathlib import Path

import click

from ke_benchmarks.cli.resolving import resolve_dataset
from ke_core.app import App, count_noun, out
from ke_core.app import options as shared


@click.command("export")
@shared.dataset_argument
@click.option("--out", "to", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE",
              help="Output file, in JSON lines.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
@shared.component_options
@shared.data_dir
@click.pass_obj
def command(app: App, name: str, *, to: Path, force: bool, options: tuple[str, ...], data_dir: Path | None) -> None:
    """Write the cases of a dataset to a file.

    docs/datasets.md describes the format. Use the file with other tools, or edit it and evaluate on it: `ke eval
    --dataset cases -o cases.file=FILE`.

    \b
    Example: ke datasets export atlas --out atlas.jsonl
    """  # fmt: skip
    from ke_benchmarks.files.cases import export  # noqa: PLC0415  imports cattrs

    if to.exists() and not force:
        raise click.UsageError(f"{to} exists: add --force to replace it")
    source = resolve_dataset(app, name, options, data_dir)
    header = export(source.build(), source.spec.for_config(source.config), to)
    out().print(f"{to}: {count_noun(header.cases or 0, 'case')} of {name}", markup=False, soft_wrap=True)
