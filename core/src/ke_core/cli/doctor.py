"""``ke doctor``: does this installation work, and what to do where it does not."""

from __future__ import annotations

import click

from ke_core.cli.app import App
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.options import json_option, print_json

COLOURS = {"ok": "green", "note": "yellow", "wrong": "red"}


@click.command("doctor")
@click.option(
    "--base-url",
    envvar="OPENAI_BASE_URL",
    default="",
    metavar="URL",
    show_envvar=True,
    help="A model server to be asked for its models. Without one, nothing is contacted.",
)
@json_option
@click.pass_obj
def command(app: App, *, base_url: str, as_json: bool) -> int:
    """Check this installation: plugins, device, memory, caches, folders, what is configured.

    Changes nothing. Exit status 1 if something is wrong; what to do stands under it.

    \b
    Examples:
      ke doctor
      ke doctor --json > doctor.json
    """  # fmt: skip
    from ke_core.cli.console import out  # noqa: PLC0415  rich is for commands that print tables
    from ke_core.data.codec import to_json  # noqa: PLC0415  the data model
    from ke_core.report.numbers import count_noun  # noqa: PLC0415  as above
    from ke_core.report.text import literal, plain_table  # noqa: PLC0415
    from ke_core.run.health import examine  # noqa: PLC0415

    _ = app.catalog  # reading it may mark more plugins as broken
    findings = list(examine(app.plugins, base_url))
    wrong = sum(finding.state == "wrong" for finding in findings)
    if as_json:
        print_json({"wrong": wrong, "findings": [to_json(finding) for finding in findings]})
        return FAILED if wrong else DONE
    table, area = plain_table("area", "", "what"), ""
    for finding in findings:
        shown = "" if finding.area == area else finding.area
        area = finding.area
        words = literal(finding.what)
        if finding.advice:
            words.append(f"\nwhat to do: {finding.advice}", style="bold")
        table.add_row(shown, literal(finding.state, COLOURS[finding.state]), words)
    verdict = literal(
        "all is well" if not wrong else f"{count_noun(wrong, 'thing')} wrong", "red" if wrong else "green"
    )
    out().print(table, verdict, sep="\n")
    return FAILED if wrong else DONE
