"""``ke serve``: an OpenAI-compatible endpoint with active edits, and ``ke serve edits``, which changes them."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from ke_core.app import (
    App,
    completion,
    count_noun,
    err,
    literal,
    model_choice,
    out,
    plain_table,
    progress,
    split_options,
)
from ke_core.app import options as shared
from ke_weights.sentences import edit_from_sentence

if TYPE_CHECKING:
    from ke_core.app import ModelChoice
    from ke_plugin_serve.startup import ServeRequest

TOKEN = "KE_SERVE_TOKEN"  # noqa: S105  the name of a variable
MILLISECOND = 1e-3
url_option = click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, metavar="URL", help="Address of the server."
)


FILE = click.Path(path_type=Path)


@click.group("serve", invoke_without_command=True)
@shared.section(
    "Method and edits",
    click.option(
        "--editor",
        default="",
        metavar="NAME",
        shell_complete=completion.component("editor"),
        help="Editing method, such as mello, ice or input-aug.",
    ),
    click.option("--edits", type=FILE, metavar="FILE", help="Edits to start with. The file is only read."),
    click.option(
        "--state",
        type=FILE,
        metavar="FILE",
        help="File where the server saves changes; after a restart, it is used instead of --edits. "
        "[default: name of --edits with .state.jsonl added]",
    ),
    click.option(
        "--adaptor",
        type=FILE,
        metavar="FOLDER",
        help="Serve an adaptor from `ke edit --out`, instead of --editor, -o, --edits and --state.",
    ),
    shared.component_options,
    shared.seed_option,
)
@shared.model_options
@shared.section(
    "Server",
    click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."),
    click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535),
                 help="Port to listen on; 0 for a free one."),
    click.option("--name", default="", metavar="NAME", help="Name of the model for clients. [default: --model]"),
    click.option("--max-tokens", default=1024, show_default=True, type=click.IntRange(1),
                 help="Largest number of tokens that a client may request."),
    click.option("--max-requests", default=64, show_default=True, type=click.IntRange(1),
                 help="Concurrent requests; further ones get status 429."),
    click.option("--window", default=5.0, show_default=True, type=click.FloatRange(0, 1000),
                 help="Milliseconds to wait for further requests to batch."),
)  # fmt: skip
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Serve an edited model over an OpenAI-compatible API.

    `ke serve edits` changes the edits while the server runs. The last message of a chat is the question. If
    KE_SERVE_TOKEN is set, clients must send it as their API key.

    \b
    Examples:
      ke serve --model smollm2-135m --editor mello --edits facts.jsonl
      ke serve edits add "The capital of Peru is Cusco"
      ke serve edits list
      ke serve --adaptor ./edited
    """  # fmt: skip
    if context.invoked_subcommand is not None:
        options = [name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if options:
            raise click.UsageError(f"--{options[0].replace('_', '-')} is an option of ke serve, not of ke serve edits")
        return
    app: App = context.obj
    _serve(app, given, _model_of(context, given) if given["adaptor"] else model_choice(given))


def _model_of(context: click.Context, given: dict[str, Any]) -> ModelChoice:
    """Return the model of the saved adaptor. Raises UsageError for options that the adaptor sets."""
    for option, name in (("--editor", "editor"), ("-o", "options"), ("--edits", "edits"), ("--state", "state")):
        if given[name]:
            raise click.UsageError(f"{option} cannot be used with --adaptor, which sets it")
    from ke_plugin_serve.startup import adaptor_model  # noqa: PLC0415  torch

    return adaptor_model(context, given)


def _serve(app: App, given: dict[str, Any], model: ModelChoice) -> None:
    from ke_plugin_serve.app import changeable  # noqa: PLC0415  starlette
    from ke_plugin_serve.limits import Limits  # noqa: PLC0415  starlette
    from ke_plugin_serve.rendering import ChatFormat, ignored_fields  # noqa: PLC0415  the data model
    from ke_plugin_serve.server import Address, serve  # noqa: PLC0415  uvicorn
    from ke_plugin_serve.startup import opened  # noqa: PLC0415  numpy

    if not given["adaptor"]:
        shared.require(app, "editor", given["editor"])
    request, console = _request(given, model), err()
    address = Address(host=given["host"], port=given["port"], token=os.environ.get(TOKEN, "").strip())
    address.check()  # before a model is loaded
    with ExitStack() as stack:
        with progress(console) as shown:  # progress of the start; requests are not reported
            served = stack.enter_context(opened(request, app.catalog, shown))
        settings = ChatFormat(
            model=given["name"] or _name(model.reference),
            turns=served.turns,
            ignored=ignored_fields(served.spec),
            max_tokens=given["max_tokens"],
            default_tokens=DEFAULT_TOKENS,
        )

        changes = f"changes are saved to {served.state.path}" if served.state else "changes are not saved"
        if not changeable(served.edited):
            changes = "they cannot be changed while the server runs"

        def listening(url: str, _server: object) -> None:
            guard = f"with the token in {TOKEN}" if address.token else "without a token"
            what = f"{served.spec.name} in front of {served.session.model.id}, {count_noun(len(served.bank), 'edit')}"
            for line in (
                f"{what}; {changes}",
                served.notice,
                f"{settings.model} at {url}/v1, {guard}; Ctrl-C stops it",
            ):
                if line:
                    console.print(literal(line), soft_wrap=True)

        limits = Limits(concurrent=given["max_requests"])
        ended = serve(served, settings, address, limits, window=given["window"] * MILLISECOND, listening=listening)
        answered = f"{count_noun(ended.questions, 'question')} in {count_noun(ended.batches, 'batch', 'batches')}"
        console.print(literal(f"stopped; answered {answered}"), soft_wrap=True)
    if ended.busy:
        _leave()


def _leave() -> NoReturn:
    """End the process: Python itself would wait for the model's thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


DEFAULT_TOKENS = 256
"""Tokens of an answer if the client sets no limit."""


def _request(given: dict[str, Any], model: ModelChoice) -> ServeRequest:
    from ke_plugin_serve.startup import ServeRequest  # noqa: PLC0415

    return ServeRequest(
        editor=given["editor"],
        model=model,
        options=split_options(given["options"]),
        edits=given["edits"],
        state=given["state"],
        adaptor=given["adaptor"],
        seed=given["seed"],
    )


def _name(reference: str) -> str:
    """Return the name of the model for clients: the value of ``--model``, or the name of the folder."""
    folder = Path(reference.removeprefix("hf:")).expanduser()
    return folder.resolve().name if folder.is_dir() else reference


@command.group("edits")
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
        raw = [fields_of(edit_from_sentence(sentences[0], subject))]
    else:
        raw = [{"statement": sentence} for sentence in sentences]
    done = _client(url).add(raw, replace=replace)
    lines = [(label, one["id"], one["statement"]) for label in ("added", "replaced") for one in done[label]]
    _say(*(f"{label}  {name}  {statement}" for label, name, statement in lines))
    _say(*(f"known  {name}" for name in done["known"]), f"{done['count']} active")


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
