"""``ke datasets``: list benchmarks. The benchmarks toolkit adds more subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.plugins.options import reject_unused, split_options
from ke_core.runner.resolve import DATA_DIR, ResolvedComponent, resolve_component, with_flag


@click.group("datasets")
def command() -> None:
    """List, describe, sample, fetch and check benchmarks.

    All subcommands but list come from ke-benchmarks (pip install ke-benchmarks).

    \b
    Example: ke datasets stats atlas
    """


@command.command("list")
@shared.json_option
@click.pass_obj
def list_(app: App, *, as_json: bool) -> None:
    """List the installed datasets.

    \b
    Example: ke datasets list
    """
    offers = [app.catalog.offer("dataset", name) for name in app.catalog.names("dataset")]
    if not as_json:
        shared.require_some(app, "dataset")
    rows = [
        {
            "dataset": offer.spec.name,
            "summary": offer.spec.summary,
            "judge": getattr(offer.spec, "judge", ""),
            "metrics": getattr(offer.spec, "metrics", ()),
            "plugin": (offer.plugin.distribution or offer.plugin.name).removeprefix("ke-plugin-"),
        }
        for offer in offers
    ]
    shared.print_rows(rows, as_json=as_json, shorten="summary", drop=("plugin", "metrics", "judge"))


def resolve_dataset(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent[Any]:
    """A dataset by its name, with its options."""
    spec, options = app.catalog.spec("dataset", name), split_options(given)
    reject_unused(options, [spec])
    return resolve_component(app.catalog, "dataset", name, with_flag(spec, options, DATA_DIR, str(data_dir or "")))
