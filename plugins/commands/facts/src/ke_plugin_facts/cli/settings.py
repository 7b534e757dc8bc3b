"""The options that ``ke plan`` and ``ke apply`` share. Each overrides the setting of the file with that name."""

from __future__ import annotations

from collections.abc import Mapping
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ke_core.app import completion, model_choice, split_options
from ke_core.app import options as shared
from ke_plugin_facts.versions import ManagedFolder

if TYPE_CHECKING:
    from ke_plugin_facts.fact_file import FactFile
    from ke_plugin_facts.planning import Target

DEFAULT_OUT = "edited"
file_argument = click.argument("file", type=click.Path(path_type=Path), default=Path("facts.toml"), metavar="[FILE]")
out_option = click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
                          help=f"Folder of the managed model. [default: the file's, else {DEFAULT_OUT}]")  # fmt: skip
author_option = click.option("--author", default=getuser, metavar="NAME", show_default="the user's name",
                             help="Who makes the change, for `ke patch log`.")  # fmt: skip
method_options = shared.section(
    "Method",
    click.option("--editor", default="", metavar="NAME", shell_complete=completion.component("editor"),
                 help="Editing method. [default: the file's]"),
    shared.component_options,
    shared.seed_option,
    click.option("--format", "format_", type=click.Choice(["merged", "peft"]), default="merged", show_default=True,
                 help="What to write: a checkpoint (merged) or a LoRA adapter (peft)."),
    click.option("--min", "least", multiple=True, metavar="METRIC=RATE",
                 help="Change nothing below this rate; metrics as in `ke verify` (repeatable). [default: the file's, "
                 "else efficacy=0.9]"),
    click.option("--max", "most", multiple=True, metavar="METRIC=RATE",
                 help="Change nothing above this rate (repeatable)."),
)  # fmt: skip


def managed_folder(out: Path | None, file: FactFile | None = None) -> ManagedFolder:
    """Return the folder of the managed model. A relative path in a file starts at the file's folder."""
    if out is None and file is not None and "out" in file.settings:
        out = file.path.parent / str(file.settings["out"])
    return ManagedFolder(root=out or Path(DEFAULT_OUT))


def target_of(context: click.Context, file: FactFile, given: Mapping[str, Any]) -> Target:
    """Return what the file and the options of the command say. Raises UsageError without an editor."""
    from ke_plugin_facts.planning import Target  # noqa: PLC0415  torch

    written = {name: file.settings[name] for name in ("model", "dtype", "seed") if name in file.settings}
    explicit = {name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    merged = {**given, **{name: value for name, value in written.items() if name not in explicit}}
    editor = given["editor"] or str(file.settings.get("editor", ""))
    shared.require(context.obj, "editor", editor)
    options = {name: dict(table) for name, table in file.options.items()}
    for name, table in split_options(given["options"]).items():
        options[name] = {**options.get(name, {}), **table}
    return Target(
        choice=model_choice(merged),
        editor=editor,
        options=options,
        seed=int(merged["seed"]),
        format=given["format_"],
        least=given["least"] or file.bounds("min"),
        most=given["most"] or file.bounds("max"),
    )
