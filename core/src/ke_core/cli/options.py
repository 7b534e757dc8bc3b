"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ke_core.cli import completion
from ke_core.cli.lazy import SERVER
from ke_core.plugins.directory import directory_entries
from ke_core.spec.errors import BadConfig, did_you_mean
from ke_core.storage.json_reading import read_toml

if TYPE_CHECKING:
    from ke_core.cli.app import App

C = TypeVar("C", bound=Callable[..., Any])
DEFAULT_MODEL = "smollm2-135m"
COUNT = click.IntRange(1)
CONFIG = "ke.config"
"""The key under which a context keeps the component options of ``--config FILE``."""


def section(title: str, *options: Callable[[Any], Any]) -> Callable[[C], C]:
    """Return a decorator that adds ``options`` and lists them under ``title`` in the command's help.

    Options that already have a section keep it.
    """

    def decorate(command: C) -> C:
        before = len(getattr(command, "__click_params__", ()))
        decorated = reduce(lambda made, option: option(made), reversed(options), command)
        for parameter in vars(decorated)["__click_params__"][before:]:
            vars(parameter).setdefault("section", title)
        return decorated

    return decorate


def _with_config(context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Add the component options of ``--config FILE`` that the command line does not set."""
    named = {text.partition("=")[0].strip() for text in given}
    return (*given, *(text for text in context.meta.get(CONFIG, ()) if text.partition("=")[0] not in named))


def _read_config(context: click.Context, _parameter: click.Parameter, path: Path | None) -> None:
    """Make the values in a TOML file the defaults of the command's options. Raises BadConfig."""
    if path is None:
        return
    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    by_key = {name[2:]: each for each in options if not each.is_eager for name in each.opts if name[:2] == "--"}
    del by_key["option"]
    raw, context.default_map = read_toml(path, error=BadConfig), {}
    for key, value in raw.items():
        if key == "options":
            context.meta[CONFIG] = [*_component_options(value, path)]
            continue
        option = by_key.get(key)
        if option is None:
            keys = sorted([*by_key, "options"])
            hint = did_you_mean(key, keys, f"keys: {', '.join(keys)}")
            raise BadConfig(f"unknown key {key!r} ({path})", hint=hint)
        values = value if option.multiple and isinstance(value, list) else [value]
        if any(isinstance(each, bool) != option.is_flag or isinstance(each, list | dict) for each in values):
            raise BadConfig(f"{key} cannot be {value!r} ({path})", hint=f"see --{key} in {context.command_path} --help")
        context.default_map[str(option.name)] = values if option.multiple else value


def _component_options(tables: Any, path: Path) -> Iterator[str]:
    from ke_core.plugins.options import option_text  # noqa: PLC0415  imports cattrs

    for name, table in tables.items() if isinstance(tables, dict) else [("", tables)]:
        if not isinstance(table, dict):
            raise BadConfig(f"options cannot be {table!r} ({path})", hint="write [options.NAME] and its keys below")
        for key, value in table.items():
            yield f"{name}.{key}={option_text(value, f'options.{name}.{key} ({path})')}"


component_options = click.option(
    "-o", "--option", "options", multiple=True, metavar="NAME.OPTION=VALUE",
    callback=_with_config, shell_complete=completion.option,
    help="Set an option of a component; `ke show NAME` lists them (repeatable).",
)  # fmt: skip
config_option = click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.toml", is_eager=True,
    expose_value=False, callback=_read_config, help="Read options from a TOML file; the command line overrides it.",
)  # fmt: skip
data_dir = click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER",
    help="Folder of published data files. [default: KE_DATA_DIR, else the cache]",
)  # fmt: skip
device = click.option("--device", default="", metavar="NAME", help="Device: cpu, cuda, mps ... [default: automatic]")
device_map = click.option("--device-map", default="", metavar="NAME", help="Spread a large model over devices: auto.")
trust = click.option("--trust-remote-code", is_flag=True, help="Run Python code that comes with the model.")
full_option = click.option("--full", is_flag=True, help="Print every table, the settings, the costs and all warnings.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
run_argument = click.argument("run", type=click.Path(path_type=Path), metavar="RUN", shell_complete=completion.run)
dataset_argument = click.argument("name", metavar="DATASET", shell_complete=completion.component("dataset"))
editors_option = click.option("--editor", "editors", multiple=True, metavar="NAME",
                              help="Editor (repeatable); see ke plugins.",
                              shell_complete=completion.component("editor"))  # fmt: skip
dataset_option = click.option("--dataset", default="", metavar="NAME", help="Benchmark; see ke datasets list.",
                              shell_complete=completion.component("dataset"))  # fmt: skip
judge_option = click.option("--judge", default="", metavar="NAME", help="Judge. [default: the dataset's]",
                            shell_complete=completion.component("judge"))  # fmt: skip
metric_option = click.option("--metric", "metrics", multiple=True, metavar="NAME",
                             help="Metric (repeatable). [default: the dataset's]",
                             shell_complete=completion.component("metric"))  # fmt: skip
price_options = section(
    SERVER,
    click.option("--price-in", type=click.FloatRange(0), default=0.0, metavar="PRICE",
                 help="Price of a million prompt tokens, to print the total cost."),
    click.option("--price-out", type=click.FloatRange(0), default=0.0, metavar="PRICE",
                 help="Price of a million generated tokens."),
)  # fmt: skip
"""Prices of a server's tokens."""
server_options = section(
    SERVER,
    click.option("--base-url", default="", metavar="URL", help="Address of the server: http://HOST:PORT/v1."),
    click.option("--concurrency", type=click.IntRange(1), default=None, metavar="N",
                 help="Requests sent at once. [default: 32 for vLLM and SGLang, else 8]"),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True,
                 metavar="SECONDS", help="Longest wait for an answer."),
    click.option("--api-key-env", default="OPENAI_API_KEY", show_default=True, metavar="NAME",
                 help="Environment variable that holds the API key."),
)  # fmt: skip
"""Options for a model behind a server (``openai:ID``)."""
loading_options = section(
    "Model",
    click.option("--revision", default="", metavar="NAME", help="Branch, tag or commit of the model."),
    click.option("--dtype", default="float32", show_default=True,
                 type=click.Choice(["float32", "bfloat16", "float16", "nf4"]),
                 help="Data type of the weights. nf4 (4-bit, for qlora) needs bitsandbytes."),
    device, device_map,
    click.option("--chat/--no-chat", default=False, show_default=True,
                 help="Use the chat template, or the chat endpoint of a server."),
    trust,
    server_options,
)  # fmt: skip
"""Options for loading a model, or for a model behind a server."""
model_options = section(
    "Model",
    click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="[SOURCE:]ID[@REVISION]",
                 shell_complete=completion.model,
                 help="Name from `ke models list`, folder, hub id, or openai:ID."),
    loading_options,
)  # fmt: skip
"""``--model`` and the options for loading it."""


def require(app: App, kind: str, given: object) -> None:
    """Raise UsageError if no component is given. The message lists what is installed and how to install more."""
    if not given:
        raise click.UsageError(f"no {kind} is given: add --{kind} NAME\n{_offers(app, kind)}")


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
    lines += [f"  pip install {name}  installs {', '.join(brought)}" for name, brought in carriers.items()]
    return "\n".join(lines)


def print_json(raw: Any) -> None:
    """Print JSON values on standard output."""
    click.echo(json.dumps(raw, indent=1, ensure_ascii=False))


def print_rows(
    rows: Sequence[Mapping[str, Any]], *, as_json: bool, shorten: str = "", drop: Sequence[str] = ()
) -> None:
    """Print records as JSON, or as a table with their keys as headings.

    ``shorten`` and ``drop``: how to fit the table into a narrow terminal, as in ``plain_table``.
    """
    if as_json:
        print_json(rows)
        return
    from ke_core.cli.console import err, out  # noqa: PLC0415  rich is for commands that print tables
    from ke_core.results.formatting import literal, plain_table  # noqa: PLC0415

    if not rows:
        err().print("nothing to list")
        return
    table = plain_table(*(key.replace("_", " ") for key in rows[0]))
    table.columns[0].no_wrap = True
    table.shorten, table.drop = shorten, drop
    for row in rows:
        table.add_row(*(literal(_cell(value)) for value in row.values()))
    out().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list | tuple) else "" if value is None else str(value)
