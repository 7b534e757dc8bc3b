"""Saved adaptors for ``ke serve --adaptor``. They need ke-weights, which the rest of the server does not."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ke_core.plugin import KEError

if TYPE_CHECKING:
    import click

    from ke_core.app import ModelChoice
    from ke_weights.plugin import SavedEdit


def read_adaptor(folder: Path) -> SavedEdit:
    """Read a folder of ``ke edit --out``. Raises BadPatch, and KEError if ke-weights is not installed."""
    if find_spec("ke_weights") is None:
        raise KEError(
            f"--adaptor needs ke-weights, which is not installed: {folder}",
            hint="pip install 'ke-plugin-serve[adaptors]'",
        )
    from ke_weights.plugin import read_saved_edit  # noqa: PLC0415  optional, and imports torch

    return read_saved_edit(folder)


def adaptor_model(context: click.Context, given: Mapping[str, Any]) -> ModelChoice:
    """Return the model of the saved adaptor ``--adaptor``, as the command line changes it."""
    saved = read_adaptor(given["adaptor"])
    from ke_weights.plugin import recorded_model_choice  # noqa: PLC0415  as above

    return recorded_model_choice(context, given, saved.model, folder=saved.folder)
