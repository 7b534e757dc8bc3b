"""The options that ``ke plan`` and ``ke apply`` share. Each overrides the setting of the file with that name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ke_core.app import completion, model_choice, split_options
from ke_core.app import options as shared
from ke_plugin_facts.budget import DEFAULT_LIMIT

if TYPE_CHECKING:
    from ke_core.app import App, ModelChoice
    from ke_plugin_facts.fact_file import FactFile
    from ke_plugin_facts.planning import Target
    from ke_plugin_facts.versions import ManagedFolder

CHANGES = 2
"""Exit status if the compared states differ, or if a plan changes something."""


def user_name() -> str:
    """Return the name of the user, or "unknown" where there is none, as in some containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"


DEFAULT_OUT = "edited"
file_argument = click.argument("file", type=click.Path(path_type=Path), default=Path("facts.toml"), metavar="[FILE]")
folder_option = click.option("--out", type=click.Path(path_type=Path), default=Path(DEFAULT_OUT), show_default=True,
                             metavar="FOLDER", help="Folder of the managed model.")  # fmt: skip
out_option = click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
                          help=f"Folder of the managed model. [default: the file's, else {DEFAULT_OUT}]")  # fmt: skip
author_option = click.option("--author", default=user_name, metavar="NAME", show_default="the user's name",
                             help="Who makes the change, for `ke patch log`.")  # fmt: skip
keep_option = click.option("--keep", type=click.IntRange(1), default=1, show_default=True, metavar="N",
                           help="Keep the models of the newest N versions. Patches and lock files of all versions "
                           "are kept.")  # fmt: skip
method_options = shared.section(
    "Method",
    click.option("--editor", default="", metavar="NAME", shell_complete=completion.component("editor"),
                 help="Editing method. [default: the file's]"),
    shared.component_options,
    shared.seed_option,
    click.option("--format", type=click.Choice(["merged", "peft"]), default="merged", show_default=True,
                 help="What to write: a checkpoint (merged) or a LoRA adapter (peft)."),
    click.option("--min", "least", multiple=True, metavar="METRIC=RATE",
                 help="Fail, and change nothing, below this rate; metrics as in `ke verify` (repeatable). "
                 "[default: the file's; for efficacy also 0.9]"),
    click.option("--max", "most", multiple=True, metavar="METRIC=RATE",
                 help="Fail, and change nothing, above this rate (repeatable)."),
)  # fmt: skip

push_option = click.option("--push", default="", metavar="URL",
                           help="Load the adapter of the version into the vLLM server at this address, and check it "
                           "there before the version becomes the current one.")  # fmt: skip
runs_option = click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
                           metavar="FOLDER",
                           help="Folder of runs of `ke eval`, from which results are predicted.")  # fmt: skip
limit_option = click.option("--max-rise", "limit", type=click.FloatRange(min=0), default=DEFAULT_LIMIT,
                            show_default=True, metavar="FRACTION",
                            help="Accepted rise of the perplexity of unrelated text: 0.1 is 10%.")  # fmt: skip


def managed_folder(out: Path | None, file: FactFile | None = None, *, keep: int = 1) -> ManagedFolder:
    """Return the folder of the managed model. A relative path in a file starts at the file's folder."""
    from ke_plugin_facts.versions import ManagedFolder  # noqa: PLC0415  only for commands with a folder

    if out is None and file is not None and "out" in file.settings:
        out = file.path.parent / str(file.settings["out"])
    return ManagedFolder(root=out or Path(DEFAULT_OUT), keep=keep)


def model_of(context: click.Context, file: FactFile, given: Mapping[str, Any]) -> ModelChoice:
    """Return the model that the command or the file names. A folder in a file starts at the file's folder."""
    written = {name: file.settings[name] for name in ("model", "dtype") if name in file.settings}
    if (file.path.parent / str(written.get("model", ""))).is_dir() and written.get("model"):
        written["model"] = str(file.path.parent / str(written["model"]))
    return model_choice({**given, **{name: value for name, value in written.items() if not typed(context, name)}})


def options_of(app: App, file: FactFile, given: Mapping[str, Any], *editors: str) -> dict[str, dict[str, str]]:
    """Return the options of the command and of the file. Tables of the file for other editors are ignored."""
    prefixes = {app.catalog.spec("editor", name).prefix for name in app.catalog.names("editor")}
    used = {app.catalog.spec("editor", name).prefix for name in editors}
    options = {name: dict(table) for name, table in file.options.items() if name in used or name not in prefixes}
    for name, table in split_options(given["options"]).items():
        options[name] = {**options.get(name, {}), **table}
    return options


def target_of(context: click.Context, file: FactFile, given: Mapping[str, Any]) -> Target:
    """Return what the file and the options of the command say. Raises UsageError without an editor."""
    from ke_plugin_facts.planning import Target  # noqa: PLC0415  torch
    from ke_weights.bounds import bounds  # noqa: PLC0415  as above

    least, most = (_by_metric((*file.bounds(side), *given[name])) for side, name in (("min", "least"), ("max", "most")))
    bounds(least, most)  # raises for a wrong one before a model is loaded
    editor = given["editor"] or str(file.settings.get("editor", ""))
    shared.require(context.obj, "editor", editor)
    settings = {name: file.settings[name] for name in ("seed", "format") if name in file.settings}
    settings |= {name: given[name] for name in ("seed", "format") if name not in settings or typed(context, name)}
    return Target(
        choice=model_of(context, file, given),
        editor=editor,
        options=options_of(context.obj, file, given, editor),
        seed=settings["seed"],
        format=settings["format"],
        least=least,
        most=most,
    )


def _by_metric(bounds: Sequence[str]) -> tuple[str, ...]:
    """Return the last bound of each metric."""
    return tuple({text.partition("=")[0]: text for text in bounds}.values())


def limit_of(context: click.Context, file: FactFile, limit: float) -> float:
    """Return the accepted rise of the perplexity that the command or the file names."""
    found = limit if typed(context, "limit") else float(file.settings.get("max-rise", limit))
    if not math.isfinite(found):
        raise click.UsageError("--max-rise is not a finite number; for no limit, pass --force")
    return found


def typed(context: click.Context, name: str) -> bool:
    """Return whether the command line sets the option."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
