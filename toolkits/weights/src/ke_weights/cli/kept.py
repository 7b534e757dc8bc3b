"""What ``ke edit``, ``ke patch`` and ``ke verify`` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from ke_core.app import ModelChoice, model_choice
from ke_weights.patches.info import PatchBase


def model_like(context: click.Context, given: Mapping[str, Any], base: PatchBase) -> ModelChoice:
    """The model that a patch was made for, loaded as it was then, but for what the command line says.

    Raises UsageError where the patch knows its model only as a folder's name.
    """
    said = {name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if "model" not in said and base.folder:
        raise click.UsageError(
            f"the patch was made for a model in a folder called {base.model.id!r}: say --model FOLDER"
        )
    recorded = {"model": base.reference, "dtype": base.model.dtype, "chat": base.model.chat}
    return model_choice({**given, **{name: value for name, value in recorded.items() if name not in said}})
