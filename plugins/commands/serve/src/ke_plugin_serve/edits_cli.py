"""``ke serve edits``: change the edits of a running server."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ke_core.app import literal, out, plain_table
from ke_core.app import options as shared
from ke_core.plugin import BadConfig

TOKEN = "KE_SERVE_TOKEN"  # noqa: S105  the name of a variable
FILE = click.Path(path_type=Path)
url_option = click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, metavar="URL", help="Address of the server."
)


@click.group("edits")
def edits_() -> None:
    """Add, remove and list the active edits of a running server.

    \b
    Example: ke serve edits add "The capital of Peru is Cusco"
    """


@edits_.command("add")
@click.argument("sentences", nargs=-1, metavar="[SENTENCE]...")
@click.option("--edits", "file", type=FILE, metavar="FILE", help="Edits, as for `ke edit --edits`.")
@click.option(
    "--subject",
    default="",
    metavar="NAME",
    help="Subject of the sentence. It helps to find contradictions, and some editors need it.",
)
@click.option("--replace", is_flag=True, help="Remove active edits that contradict the new ones.")
@url_option
def add(*, sentences: tuple[str, ...], file: Path | None, subject: str, replace: bool, url: str) -> None:
    """Add edits. If one fails, none is added.

    \b
    Examples:
      ke serve edits add "The capital of Peru is Cusco" "The Eiffel Tower is in Rome"
      ke serve edits add --edits facts.jsonl --replace
    """
    if bool(sentences) == (file is not None):
        raise click.UsageError("add sentences or --edits FILE, not both")
    if subject and len(sentences) != 1:
        raise click.UsageError("--subject needs exactly one sentence")
    from ke_plugin_serve.active_edits import fields_of, read_bank  # noqa: PLC0415  the data model

    if file is not None:
        raw = [one.fields() for one in read_bank(file).edits.values()]
    elif subject:
        if find_spec("ke_weights") is None:
            raise BadConfig("--subject needs ke-weights", hint='pip install "ke-plugin-serve[adaptors]"')
        from ke_weights.sentences import edit_from_sentence  # noqa: PLC0415  of an extra

        raw = [fields_of(edit_from_sentence(sentences[0], subject))]
    else:
        raw = [{"statement": sentence} for sentence in sentences]
    done = _client(url).add(raw, replace=replace)
    lines = [(label, one["id"], one["statement"]) for label in ("added", "replaced") for one in done[label]]
    _say(*(f"{label}  {name}  {statement}" for label, name, statement in lines))
    _say(*(f"already active  {name}" for name in done["known"]), f"{done['count']} active")


@edits_.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="ID|SENTENCE...")
@url_option
def remove(*, names: tuple[str, ...], url: str) -> None:
    """Remove edits by id or sentence. If one fails, none is removed.

    \b
    Example: ke serve edits remove 5f2b8c0d91aa
    """
    done = _client(url).remove(names)
    _say(*(f"removed  {one['id']}  {one['statement']}" for one in done["removed"]), f"{done['count']} active")


@edits_.command("list")
@shared.json_option
@url_option
def list_(*, as_json: bool, url: str) -> None:
    """List the active edits, oldest first.

    \b
    Example: ke serve edits list --url http://127.0.0.1:8000
    """
    found = list(_client(url).edits())
    if as_json:
        shared.print_json(found)
        return

    table = plain_table("id", "statement", "source", "date")
    for one in found:
        table.add_row(*(literal(one[name]) for name in ("id", "statement", "source", "date")))
    out().print(table)


def _client(url: str) -> Any:
    from ke_plugin_serve.client import ServeClient  # noqa: PLC0415  urllib

    return ServeClient(url=url, token=os.environ.get(TOKEN, "").strip())


def _say(*lines: str) -> None:
    for line in lines:
        out().print(literal(line), soft_wrap=True)
