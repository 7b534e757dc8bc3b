"""Edits that outlive the process: patch files, revertible edited checkpoints, LoRA adapters.

::

    from pathlib import Path
    from ke_core.engine.models import open_model
    from ke_weights.patches import applied, read_patch

    model = open_model("smollm2-135m")
    with applied(model, read_patch(Path("facts.safetensors"))):
        ...                                     # the edited model; on exit, the weights are restored bit for bit
"""

from ke_weights.patches.adapter import write_adapter
from ke_weights.patches.apply import applied
from ke_weights.patches.checkpoint import read_history, reverted, write_checkpoint
from ke_weights.patches.compare import compare
from ke_weights.patches.delta import combined
from ke_weights.patches.format import StoredPatch, read_patch, write_patch
from ke_weights.patches.identity import weights_digest
from ke_weights.patches.place import whole_folder

__all__ = [
    "StoredPatch", "applied", "combined", "compare", "read_history", "read_patch", "reverted",
    "weights_digest", "whole_folder", "write_adapter", "write_checkpoint", "write_patch",
]  # fmt: skip
