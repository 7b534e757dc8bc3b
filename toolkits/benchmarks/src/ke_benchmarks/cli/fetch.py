"""``ke datasets fetch``: download the published files of datasets."""

from __future__ import annotations

from pathlib import Path

import click

from ke_benchmarks.cli.resolving import resolve_dataset
from ke_benchmarks.files.download import find_data
from ke_benchmarks.files.published import file_state, local_file
from ke_core.app import DONE, FAILED, App, completion, err, literal, out
from ke_core.app import options as shared


@click.command("fetch")
@click.argument("names", nargs=-1, required=True, metavar="DATASET...",
                shell_complete=completion.component("dataset"))  # fmt: skip
@shared.data_dir
@click.pass_obj
def command(app: App, names: tuple[str, ...], data_dir: Path | None) -> int:
    """Download the published files of datasets.

    Missing files are downloaded to the cache and compared with a pinned checksum. The same command resumes an
    interrupted download. For a file without a pinned checksum, the command prints where it is published and where to
    put it. The exit status is 1 if a local file differs from the published one.

    \b
    Example: ke datasets fetch mquake-cf-3k
    """
    status = DONE
    for name in names:
        files = resolve_dataset(app, name, (), None).build().info().files
        if not files:
            out().print(f"{name} comes with its package: nothing to download", markup=False)
        for file in files:
            found = local_file(file, data_dir)
            if found is None:
                if file.pinned:
                    err().print(f"downloading {file.url}", markup=False, soft_wrap=True)
                find_data(file.family, file.name, explicit=data_dir, url=file.url, sha256=file.sha256)
                found = local_file(file, data_dir)
            assert found is not None
            out().print(literal(f"{file.name}: {file_state(file, found)}"), soft_wrap=True)
            status = FAILED if found.is_published is False else status
    return status
