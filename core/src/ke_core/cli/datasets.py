"""``ke datasets``: list benchmarks. The benchmarks toolkit adds more subcommands."""

from __future__ import annotations

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App


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
