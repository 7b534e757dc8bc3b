"""Edits that outlive the process: patch files, revertible edited checkpoints, LoRA adapters.

::

    from pathlib import Path
    from ke_core.engine.models import open_model
    from ke_weights.patches import applied, read_patch

    model = open_model("smollm2-135m")
    with applied(model, read_patch(Path("facts.safetensors"))):
        ...                                     # the edited model; on exit, the weights are restored bit for bit

Each name is imported when it is first used: only some need torch, and ``applied`` and ``write_adapter`` transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ke_weights.patches.adapter import write_adapter
    from ke_weights.patches.apply import applied
    from ke_weights.patches.checkpoint import read_history, reverted, write_checkpoint
    from ke_weights.patches.compare import compare_patches
    from ke_weights.patches.delta import combined
    from ke_weights.patches.format import StoredPatch, read_patch, write_patch
    from ke_weights.patches.header import read_info
    from ke_weights.patches.identity import weights_digest
    from ke_weights.patches.place import whole_folder

__all__ = [
    "StoredPatch", "applied", "combined", "compare_patches", "read_history", "read_info", "read_patch", "reverted",
    "weights_digest", "whole_folder", "write_adapter", "write_checkpoint", "write_patch",
]  # fmt: skip
MODULES = {
    "write_adapter": "adapter", "applied": "apply", "read_history": "checkpoint", "reverted": "checkpoint",
    "write_checkpoint": "checkpoint", "compare_patches": "compare", "combined": "delta", "StoredPatch": "format",
    "read_patch": "format", "write_patch": "format", "read_info": "header", "weights_digest": "identity",
    "whole_folder": "place",
}  # fmt: skip
"""The module of each name."""


def __getattr__(name: str) -> Any:
    """Import a name of this package when it is first used."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
