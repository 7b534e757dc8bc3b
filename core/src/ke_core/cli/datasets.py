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
    registrations = [app.catalog.registration("dataset", name) for name in app.catalog.names("dataset")]
    if not as_json:
        shared.require_some(app, "dataset")
    rows = [
        {
            "dataset": registration.spec.name,
            "summary": registration.spec.summary,
            "judge": getattr(registration.spec, "judge", ""),
            "metrics": getattr(registration.spec, "metrics", ()),
            "plugin": (registration.plugin.distribution or registration.plugin.name).removeprefix("ke-plugin-"),
        }
        for registration in registrations
    ]
    shared.print_rows(rows, as_json=as_json, shorten="summary", drop=("plugin", "metrics", "judge"))
