"""Edits that outlive the process: patch files, edited checkpoints that can be given back, LoRA adapters.

::

    from pathlib import Path
    from ke_core.models.resolve import open_model
    from ke_core.patches import applied, read_patch

    model = open_model("smollm2-135m")
    with applied(model, read_patch(Path("facts.safetensors"))):
        ...                                     # the edited model; the weights come back bit for bit
"""

from ke_core.patches.adapter import write_adapter
from ke_core.patches.apply import applied, stacked
from ke_core.patches.checkpoint import read_history, reverted, write_checkpoint
from ke_core.patches.compare import compare
from ke_core.patches.delta import combined
from ke_core.patches.format import StoredPatch, read_patch, write_patch
from ke_core.patches.identity import weights_digest
from ke_core.patches.place import whole_folder

__all__ = [
    "StoredPatch", "applied", "combined", "compare", "read_history", "read_patch", "reverted", "stacked",
    "weights_digest", "whole_folder", "write_adapter", "write_checkpoint", "write_patch",
]  # fmt: skip
