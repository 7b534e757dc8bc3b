"""``ke models``: models with short names, downloaded once and then available offline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import click
from rich.console import Group

from ke_core.app import App, err, literal, out, plain_table, progress, server_options
from ke_core.plugin import (
    DEFAULT_SOURCE,
    KnownModel,
    ModelRequest,
    ModelSpec,
    ModelUnavailable,
    find_model,
    parse_reference,
)
from ke_plugin_hf.known import SOURCES
from ke_plugin_hf.sources import folder_of, is_cached


@click.group("models")
def command() -> None:
    """List, fetch and describe models.

    Any causal language model that transformers loads can be named by its hub id or its folder; those listed here
    come by name.

    \b
    Example: ke models pull smollm2-135m
    """


@command.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the models known by name."""
    table = plain_table("name", "kind", "license", "size", "here", "summary")
    for spec, model in _known(app):
        row = (_shown(spec, model), _kind(model), model.license, f"{model.size_mb} MB", _here(model), model.summary)
        table.add_row(*(literal(text) for text in row))
    out().print(table)


@command.command("pull")
@click.argument("name")
@click.pass_obj
def pull_(app: App, name: str) -> None:
    """Fetch a model once, check it, and keep it in the cache.

    \b
    Example: ke models pull smollm2-135m
    """
    spec, model = _find(app, name)
    if spec.pull is None:
        raise ModelUnavailable(f"{name} is not downloaded here: its source does that when it is used")
    with progress(err()) as bars:
        where = spec.pull(model.name, bars)
    out().print(literal(f"{model.name} is in {where}"), soft_wrap=True)


@command.command("info")
@click.argument("name")
@click.option("--chat/--no-chat", default=False, show_default=True, help="openai: through the chat endpoint.")
@server_options
@click.pass_obj
def info(app: App, /, name: str, **given: Any) -> None:
    """Describe a model: what it is, its license, where it comes from and where it is.

    Of a model behind a server it says what the server tells without being paid.

    \b
    Examples:
      ke models info minilm-l6
      ke models info openai:MODEL --base-url http://127.0.0.1:8000/v1
    """
    known = {_shown(spec, model) for spec, model in _known(app)}
    if name not in known and parse_reference(name).source != DEFAULT_SOURCE:
        spec, request = find_model(name, ModelRequest(id="", **given), app.catalog)
        if spec.describe is not None:
            _print(spec.describe(request))
            return
    spec, model = _find(app, name)
    lines = {
        "name": _shown(spec, model),
        "summary": model.summary,
        "kind": _kind(model),
        "license": model.license,
        "size": f"{model.size_mb} MB",
        "here": str(folder_of(model.name)) if _here(model) == "yes" else f"no: ke models pull {model.name}",
    }
    if model.name in SOURCES:
        source = SOURCES[model.name]
        lines |= {"package": f"{source.package} (sha256 {source.sha256})", "weights": f"sha256 {source.weights[1]}"}
        lines |= {"notice": source.notice.strip().replace("\n", "\n" + " " * 9)}
    _print(lines)


def _print(lines: Mapping[str, str]) -> None:
    out().print(Group(*(literal(f"{label:8} {text}") for label, text in lines.items())), soft_wrap=True)


def _known(app: App) -> Iterator[tuple[ModelSpec, KnownModel]]:
    """Return every model that an installed source knows by name."""
    for name in app.catalog.names("model"):
        spec = app.catalog.spec("model", name)
        assert isinstance(spec, ModelSpec)
        for model in spec.known():
            yield spec, model


def _find(app: App, name: str) -> tuple[ModelSpec, KnownModel]:
    known = {_shown(spec, model): (spec, model) for spec, model in _known(app)}
    plain = name.removeprefix(f"{DEFAULT_SOURCE}:")
    if plain not in known:
        near = get_close_matches(plain, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known models: {', '.join(known)}"
        raise ModelUnavailable(f"unknown model {name!r}", hint=hint)
    return known[plain]


def _shown(spec: ModelSpec, model: KnownModel) -> str:
    """Return the reference as written after ``--model``."""
    return model.name if spec.name == DEFAULT_SOURCE else f"{spec.name}:{model.name}"


def _kind(model: KnownModel) -> str:
    return model.kind.replace("-", " ")


def _here(model: KnownModel) -> str:
    """Return whether it is in the cache; known for the models of this source only."""
    return "yes" if model.name in SOURCES and is_cached(model.name) else "no"
