"""Files of tensors with metadata and a checksum: states of adaptors, covariances, targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import BadData, file_errors, uninterruptible
from ke_plugin_hf.tensor_files import KEY, damage, is_intact, write_tensors

AGAIN = "save the edited model again"
AS_SAVED = "use the model and the options that it was saved with"
Loaded = tuple[dict[str, Tensor], dict[str, str]]


def save_state(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write ``tensors`` and the texts ``about`` to a safetensors file with a checksum, completely or not at all."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_tensors(path, stored, about, save_file)


def load_state(path: Path, device: torch.device | str = "cpu", *, hint: str = AGAIN) -> Loaded:
    """Read a file of ``save_state``. Raises BadData if the file is damaged, KEError if it cannot be read."""
    with file_errors(f"cannot read {path}"):
        wrong = damage(path)
    if wrong:
        raise BadData(f"{path} is damaged: {wrong}", hint=hint)
    return _read(path, device)


def load_intact(path: Path, device: torch.device | str = "cpu") -> Loaded | None:
    """Read a file of ``save_state``; None if it is missing, or damaged, with a warning."""
    return _read(path, device) if is_intact(path) else None


@uninterruptible  # torch raises ValueError if get_tensor is interrupted
def _read(path: Path, device: torch.device | str) -> Loaded:
    with safe_open(path, framework="pt") as stored:
        # Copies, because safetensors returns views, which crash the process if the file shrinks.
        tensors = {name: stored.get_tensor(name).to(device, copy=True) for name in stored.keys()}  # noqa: SIM118  no mapping
        return tensors, {name: text for name, text in (stored.metadata() or {}).items() if name != KEY}
