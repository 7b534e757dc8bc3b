"""Files of ``ke train``: a folder with the loss curve and one checkpoint.

``training.json`` describes the training: editor, model, settings and examples. ``checkpoint.safetensors`` contains
everything that the next step needs in one file, so a process killed at any time leaves a consistent checkpoint.
``loss.jsonl`` has one line per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.plugin import Artifacts, BadData, canonical, parse_object, sha256_of
from ke_plugin_hf.tensor_files import damage, write_arrays

TRAINING, CHECKPOINT, LOSSES = "training.json", "checkpoint.safetensors", "loss.jsonl"
KEY = "ke"


@frozen(kw_only=True)
class Checkpoint:
    """``about``: content of ``training.json``. ``seconds``: training time. ``tensors``: NumPy arrays."""

    about: Mapping[str, Any]
    step: int
    seconds: float
    tensors: Mapping[str, Any]


def trained_folder(artifacts: Artifacts, editor: str, place: Mapping[str, Any]) -> Path:
    """Return the default folder of ``ke train EDITOR``: one for each ``Trainer.place``."""
    return artifacts.path(f"trained-{editor}", {"editor": editor, **place}, "")


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint completely, or leave the previous one. Raises KEError on a full disk."""
    about = canonical({"about": checkpoint.about, "step": checkpoint.step, "seconds": checkpoint.seconds})
    write_arrays(folder / CHECKPOINT, checkpoint.tensors, {KEY: about})


def checkpoint_digest(folder: Path) -> str:
    """Return the digest of the checkpoint in ``folder``; empty if there is none."""
    file = folder / CHECKPOINT
    return sha256_of(file) if file.exists() else ""


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in ``folder``, None if there is none. Raises BadData for a damaged one."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  imports numpy, which registering must not

    file = folder / CHECKPOINT
    if not file.exists():
        return None
    try:
        if wrong := damage(file):
            raise ValueError(wrong)  # noqa: TRY301  as the errors of a file that cannot be read
        with safe_open(file, framework="numpy") as opened:
            header = parse_object((opened.metadata() or {})[KEY], file)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  not a mapping
        return Checkpoint(
            about=header["about"], step=int(header["step"]), seconds=float(header["seconds"]), tensors=tensors
        )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadData(
            f"{file} is damaged, or not a checkpoint of ke train: {error}", hint="delete the folder and train again"
        ) from error
