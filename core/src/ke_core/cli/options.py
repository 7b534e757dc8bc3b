"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ke_core.plugins.directory import directory_entries

if TYPE_CHECKING:
    from ke_core.cli.app import App

C = TypeVar("C", bound=Callable[..., Any])
DEFAULT_MODEL = "smollm2-135m"

component_options = click.option(
    "-o", "--option", "options", multiple=True, metavar="NAME.OPTION=VALUE",
    help="Set an option of a component (repeatable); `ke show KIND NAME` lists them.",
)  # fmt: skip
data_dir = click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER",
    help="The folder of published data files (else KE_DATA_DIR, else the cache).",
)  # fmt: skip
device = click.option("--device", default="", metavar="NAME", help="cpu, cuda, mps ... [default: found automatically]")
device_map = click.option("--device-map", default="", metavar="NAME", help="Spread a large model, e.g. auto.")
trust = click.option("--trust-remote-code", is_flag=True, help="Run Python code that comes with the model.")
full_option = click.option("--full", is_flag=True, help="Print every table, the settings, the costs and all warnings.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
run_argument = click.argument("run", type=click.Path(path_type=Path), metavar="RUN")


def model_options(command: C) -> C:
    """``--model`` and the options for loading it."""
    return _apply(
        command,
        click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="[SOURCE:]ID[@REVISION]",
                     help="A name from `ke models list`, a local folder, a hub id, or openai:ID behind a server."),
        loading_options,
    )  # fmt: skip


def judge_model_options(command: C) -> C:
    """``--judge-model``, the options for loading it, and the prices of its server."""
    return _apply(
        command,
        click.option("--judge-model", "model", default="", metavar="[SOURCE:]ID[@REVISION]",
                     help="The model that the judge asks, in the same form as --model of ke eval."),
        loading_options,
        price_options,
    )  # fmt: skip


def loading_options(command: C) -> C:
    """Options for loading a model, or for asking it behind a server."""
    return _apply(
        command,
        click.option("--revision", default="", metavar="NAME", help="Branch, tag or commit of the model."),
        click.option("--dtype", default="float32", show_default=True,
                     type=click.Choice(["float32", "bfloat16", "float16", "nf4"]),
                     help="Data type of the weights; nf4 is 4-bit, for qlora (pip install bitsandbytes)."),
        device,
        device_map,
        click.option("--chat/--no-chat", default=False, show_default=True,
                     help="Ask through the chat template, or the chat endpoint."),
        trust,
        server_options,
    )  # fmt: skip


def server_options(command: C) -> C:
    """Options for a model behind a server (``openai:ID``)."""
    return _apply(
        command,
        click.option("--base-url", default="", metavar="URL", help="openai: the server, such as http://HOST:PORT/v1."),
        click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, metavar="N",
                     help="openai: requests sent at once."),
        click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True,
                     metavar="SECONDS", help="openai: the longest wait for the server."),
        click.option("--api-key-env", default="OPENAI_API_KEY", show_default=True, metavar="NAME",
                     help="openai: the environment variable that holds the key."),
    )  # fmt: skip


def run_options(command: C) -> C:
    """Options of the run folder, the seed and the prices."""
    return _apply(
        command,
        click.option("--seed", default=0, show_default=True, help="Seed of cases, orders, tokens and intervals."),
        click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
                     help="The run folder; of several editors, the folder of their run folders. "
                          "[default: runs/EDITOR-DATASET-ID]"),
        price_options,
    )  # fmt: skip


def price_options(command: C) -> C:
    """Prices of a server's tokens."""
    return _apply(
        command,
        click.option("--price-in", type=click.FloatRange(0), default=0.0, metavar="PRICE",
                     help="openai: the price of a million prompt tokens, for the total cost at the end."),
        click.option("--price-out", type=click.FloatRange(0), default=0.0, metavar="PRICE",
                     help="openai: the price of a million generated tokens."),
    )  # fmt: skip


def require(app: App, kind: str, given: object) -> None:
    """Raise UsageError if no component is given. The message lists what is installed and how to install more."""
    if not given:
        raise click.UsageError(f"which {kind}? say --{kind} NAME\n{_offers(app, kind)}")


def require_some(app: App, kind: str) -> None:
    """Raise UsageError if no component of that kind is installed. The message lists how to install one."""
    if not app.catalog.names(kind):
        raise click.UsageError(f"no {kind} is installed\n{_offers(app, kind)}")


def _offers(app: App, kind: str) -> str:
    have = app.catalog.names(kind)
    carriers: dict[str, list[str]] = {}
    for entry in directory_entries(kind):
        if entry.name not in have:
            carriers.setdefault(entry.distribution, []).append(entry.name)
    lines = [f"  installed: {', '.join(have)}"] if have else []
    lines += [f"  pip install {name}  brings {', '.join(brought)}" for name, brought in carriers.items()]
    return "\n".join(lines)


def _apply(command: C, *options: Callable[[Any], Any]) -> C:
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def print_json(raw: Any) -> None:
    """Print JSON values on standard output."""
    click.echo(json.dumps(raw, indent=1, ensure_ascii=False))
