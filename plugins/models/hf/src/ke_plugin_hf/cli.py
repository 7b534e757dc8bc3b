"""``ke models``: list, fetch and describe models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.console import Group

from ke_core.app import (
    App,
    completion,
    err,
    json_option,
    known_models,
    literal,
    out,
    print_json,
    print_rows,
    progress,
    server_options,
)
from ke_core.plugin import (
    DEFAULT_SOURCE,
    KnownModel,
    ModelRequest,
    ModelSpec,
    ModelUnavailable,
    did_you_mean,
    find_model,
    parse_reference,
)
from ke_plugin_hf.known import SOURCES
from ke_plugin_hf.sources import folder_of, is_cached


@click.group("models")
def command() -> None:
    """List, fetch and describe models.

    You can also use any causal language model that transformers loads, by its hub id or folder.

    \b
    Example: ke models pull smollm2-135m
    """


@command.command("list")
@json_option
@click.pass_obj
def list_(app: App, *, as_json: bool) -> None:
    """List the models known by name.

    \b
    Example: ke models list
    """
    rows = [
        {
            "name": name,
            "kind": _kind(model),
            "license": model.license,
            "MB": model.size_mb,
            "cached": _cached(model),
            "summary": model.summary,
        }
        for name, (_spec, model) in known_models(app.catalog).items()
    ]
    print_rows(rows, as_json=as_json, shorten="summary", drop=("license", "kind", "MB"))


@command.command("pull")
@click.argument("name", metavar="MODEL", shell_complete=completion.model)
@click.pass_obj
def pull_(app: App, name: str) -> None:
    """Download a model to the cache and verify it.

    \b
    Example: ke models pull smollm2-135m
    """
    spec, model = _find(app, name)
    if spec.pull is None:
        raise ModelUnavailable(
            f"{name} cannot be pulled: its source downloads it when it is used",
            hint=f"run your command with --model {name}",
        )
    with progress(err()) as bars:
        where = spec.pull(model.name, bars)
    out().print(literal(f"{model.name} is in {where}"), soft_wrap=True)


@command.command("info")
@click.argument("name", metavar="MODEL", shell_complete=completion.model)
@click.option("--chat/--no-chat", default=False, show_default=True, help="Use the chat endpoint of a server.")
@json_option
@server_options
@click.pass_obj
def info(app: App, /, name: str, *, as_json: bool, **given: Any) -> None:
    """Print the license, origin and location of a model.

    For a model behind a server, it prints what the server reports free of charge.

    \b
    Examples:
      ke models info minilm-l6
      ke models info openai:MODEL --base-url http://127.0.0.1:8000/v1
    """
    show = print_json if as_json else _print
    if name not in known_models(app.catalog) and parse_reference(name).source != DEFAULT_SOURCE:
        spec, request = find_model(name, ModelRequest(id="", **given), app.catalog)
        if spec.describe is not None:
            show(dict(spec.describe(request)))
            return
    _spec, model = _find(app, name)
    lines = {
        "name": name.removeprefix(f"{DEFAULT_SOURCE}:"),
        "summary": model.summary,
        "kind": _kind(model),
        "license": model.license,
        "size": f"{model.size_mb} MB",
        "here": str(folder_of(model.name)) if _cached(model) else f"no: ke models pull {model.name}",
    }
    if model.name in SOURCES:
        source = SOURCES[model.name]
        lines |= {"package": f"{source.package} (sha256 {source.sha256})", "weights": f"sha256 {source.weights[1]}"}
        lines |= {"notice": source.notice.strip()}
    show(lines)


def _print(lines: Mapping[str, str]) -> None:
    texts = ((label, text.replace("\n", "\n" + " " * 9)) for label, text in lines.items())
    out().print(Group(*(literal(f"{label:8} {text}") for label, text in texts)), soft_wrap=True)


def _find(app: App, name: str) -> tuple[ModelSpec, KnownModel]:
    known = known_models(app.catalog)
    plain = name.removeprefix(f"{DEFAULT_SOURCE}:")
    if plain not in known:
        hint = did_you_mean(plain, known, f"known models: {', '.join(known)}")
        raise ModelUnavailable(f"no model is known as {name!r}", hint=hint)
    return known[plain]


def _kind(model: KnownModel) -> str:
    return model.kind.replace("-", " ")


def _cached(model: KnownModel) -> bool:
    """Return whether the model is in the cache, which only models of this source can be."""
    return model.name in SOURCES and is_cached(model.name)
