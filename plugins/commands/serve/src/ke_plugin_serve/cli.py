"""``ke serve``: an OpenAI-compatible endpoint with active edits, and ``ke serve edits``, which changes them."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from ke_core.app import App, completion, count_noun, err, literal, model_choice, progress, split_options
from ke_core.app import options as shared
from ke_plugin_serve.edits_cli import FILE, TOKEN, edits_

if TYPE_CHECKING:
    from ke_core.app import ModelChoice
    from ke_plugin_serve.server import Address
    from ke_plugin_serve.startup import ServeRequest

MILLISECOND = 1e-3
VLLM_ONLY, LOCAL_ONLY = ("upstream", "adapter_dir", "min_efficacy"), ("adaptor", "max_tokens", "window")
"""Options without effect on the other backend."""


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
@shared.section(
    "vLLM",
    click.option("--backend", type=click.Choice(["local", "vllm"]), default="local", show_default=True,
                 help="What answers: the model in this process, or a vLLM server with the edits as an adapter."),
    click.option("--upstream", default="", metavar="URL", help="Address of the vLLM server, which serves --model."),
    click.option("--adapter-dir", type=FILE, metavar="FOLDER",
                 help="Folder for adapters, with the same path on the server's machine. [default: a temporary one]"),
    click.option("--min-efficacy", default=1.0, show_default=True, type=click.FloatRange(0, 1),
                 help="Fraction of the edited facts that the server must answer with the new object."),
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
      ke serve --model ./base --editor memit --backend vllm --upstream http://127.0.0.1:8001
    """  # fmt: skip
    if context.invoked_subcommand is not None:
        options = [name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if options:
            raise click.UsageError(f"--{options[0].replace('_', '-')} is an option of ke serve, not of ke serve edits")
        return
    app: App = context.obj
    _check_backend(context, given)
    model = _model_of(context, given) if given["adaptor"] else model_choice(given)
    if not given["adaptor"]:
        shared.require(app, "editor", given["editor"])
    from ke_plugin_serve.server import Address  # noqa: PLC0415  uvicorn
    from ke_plugin_serve.vllm_cli import serve_vllm  # noqa: PLC0415  uvicorn

    address = Address(host=given["host"], port=given["port"], token=os.environ.get(TOKEN, "").strip())
    address.check()  # both before a model is loaded
    address.check_free()
    backend = serve_vllm if given["backend"] == "vllm" else _serve
    if backend(app, given, _request(given, model), address):
        _leave()


def _check_backend(context: click.Context, given: dict[str, Any]) -> None:
    """Raise UsageError for options without effect on the backend, and for a missing --upstream."""
    remote = given["backend"] == "vllm"
    for name in LOCAL_ONLY if remote else VLLM_ONLY:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            backend = "local" if remote else "vllm"
            raise click.UsageError(f"--{name.replace('_', '-')} needs --backend {backend}")
    if remote and not given["upstream"]:
        raise click.UsageError("--backend vllm needs --upstream URL, the address of the vLLM server")


def _model_of(context: click.Context, given: dict[str, Any]) -> ModelChoice:
    """Return the model of the saved adaptor. Raises UsageError for options that the adaptor sets."""
    for option, name in (("--editor", "editor"), ("-o", "options"), ("--edits", "edits"), ("--state", "state")):
        if given[name]:
            raise click.UsageError(f"{option} cannot be used with --adaptor, which sets it")
    from ke_plugin_serve.startup import adaptor_model  # noqa: PLC0415  torch

    return adaptor_model(context, given)


def _serve(app: App, given: dict[str, Any], request: ServeRequest, address: Address) -> bool:
    """Answer with the model of this process. Return whether its thread is still working at the end."""
    from ke_plugin_serve.app import changeable  # noqa: PLC0415  starlette
    from ke_plugin_serve.limits import Limits  # noqa: PLC0415  starlette
    from ke_plugin_serve.rendering import ChatFormat, ignored_fields, served_name  # noqa: PLC0415  the data model
    from ke_plugin_serve.server import serve  # noqa: PLC0415  uvicorn
    from ke_plugin_serve.startup import opened  # noqa: PLC0415  numpy

    console = err()
    with ExitStack() as stack:
        with progress(console) as shown:  # progress of the start; requests are not reported
            served = stack.enter_context(opened(request, app.catalog, shown))
        settings = ChatFormat(
            model=given["name"] or served_name(request.model.reference),
            turns=served.turns,
            ignored=ignored_fields(served.spec),
            max_tokens=given["max_tokens"],
            default_tokens=DEFAULT_TOKENS,
        )

        changes = f"changes are saved to {served.state.path}" if served.state else "changes are not saved"
        if not changeable(served):
            changes = "they cannot be changed while the server runs"

        def listening(url: str, _server: object) -> None:
            guard = f"with the token in {TOKEN}" if address.token else "without a token"
            what = f"serving {served.session.model.id} with {served.spec.name}, {count_noun(len(served.bank), 'edit')}"
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
    return ended.busy


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


command.add_command(edits_)
