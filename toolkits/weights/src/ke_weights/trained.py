"""What ``ke train`` leaves behind: a folder with the loss curve and one checkpoint, and how it is found again.

``training.json`` says what was trained, for whom, how and on what. ``checkpoint.safetensors`` holds everything that
the next step needs, in one file, so that a process killed at any moment leaves a checkpoint of one step.
``loss.jsonl`` has a line a step.
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
    """``about``: what stands in ``training.json``. ``seconds``: how long it was trained. ``tensors``: NumPy arrays."""

    about: Mapping[str, Any]
    step: int
    seconds: float
    tensors: Mapping[str, Any]


def trained_folder(artifacts: Artifacts, editor: str, place: Mapping[str, Any]) -> Path:
    """Where ``ke train EDITOR`` writes without ``--out``: one folder for each ``Trainer.place``."""
    return artifacts.path(f"trained-{editor}", {"editor": editor, **place}, "")


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it whole, or leave the one before. Raises KEError on a full disk."""
    said = canonical({"about": checkpoint.about, "step": checkpoint.step, "seconds": checkpoint.seconds})
    write_arrays(folder / CHECKPOINT, checkpoint.tensors, {KEY: said})


def checkpoint_digest(folder: Path) -> str:
    """Of the checkpoint in ``folder``, for ``dependencies``; empty if there is none."""
    file = folder / CHECKPOINT
    return sha256_of(file) if file.exists() else ""


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint in ``folder``, None if there is none yet. Raises BadData for one that cannot be read."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  imports numpy, which registering must not

    file = folder / CHECKPOINT
    if not file.exists():
        return None
    try:
        if wrong := damage(file):
            raise ValueError(wrong)  # noqa: TRY301  as the errors of a file that cannot be read
        with safe_open(file, framework="numpy") as opened:
            said = parse_object((opened.metadata() or {})[KEY], file)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  not a mapping
        return Checkpoint(about=said["about"], step=int(said["step"]), seconds=float(said["seconds"]), tensors=tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadData(
            f"{file} is not a checkpoint that ke train has written, or a damaged one: {error}",
            hint="delete the folder and train again",
        ) from error
