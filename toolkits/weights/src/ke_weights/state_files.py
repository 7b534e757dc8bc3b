"""Files for the state of adaptors: tensors and metadata, with a checksum."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import BadData, file_errors
from ke_plugin_hf.tensor_files import KEY, damage, write_tensors

AGAIN = "save the edited model again"


def save_state(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write ``tensors`` and the texts ``about`` to a safetensors file with a checksum."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_tensors(path, stored, about, save_file)


def load_state(path: Path, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file of ``save_state``. Raises BadData if the file is damaged, KEError if it cannot be read."""
    with file_errors(f"cannot read {path}"):
        wrong = damage(path)
    if wrong:
        raise BadData(f"{path} is damaged: {wrong}", hint=AGAIN)
    with safe_open(path, framework="pt", device=str(device)) as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  no mapping
        about = {name: text for name, text in (stored.metadata() or {}).items() if name != KEY}
    return tensors, about
