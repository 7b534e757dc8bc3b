"""Where ``ke edit`` and ``ke patch`` write, checked before a model is loaded. Without torch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from attrs import frozen

from ke_core.app import ModelChoice
from ke_core.plugin import BadConfig
from ke_weights.patches.place import refuse_existing, refuse_unwritable, whole_folder

Format = Literal["merged", "peft"]


@frozen(kw_only=True)
class SaveTargets:
    """``out``: a folder, a checkpoint or an adapter by ``format``. ``patch``: a patch file. Either, both or none."""

    out: Path | None = None
    format: Format = "merged"
    patch: Path | None = None
    force: bool = False

    def check(self, model: ModelChoice) -> None:
        """Raise BadConfig for paths that cannot be written, before anything is computed."""
        if self.out is not None and self.patch is not None and _overlap(self.out, self.patch):
            raise BadConfig(
                f"--out {self.out} and --patch {self.patch} overlap", hint="write the patch outside of the folder"
            )
        if self.out is not None:
            _refuse_inside(self.out, model)
        if self.patch is not None and self.patch.is_dir():
            raise BadConfig(
                f"{self.patch} is a folder, not a patch file", hint="use a file name such as facts.safetensors"
            )
        for path in filter(None, (self.out, self.patch)):
            refuse_unwritable(path)
            refuse_existing(path, force=self.force)

    def write_adaptor(self, folder: Path) -> list[str]:
        """Copy the saved edit in ``folder``. Return a line about it."""
        if self.out is None:
            return []
        with whole_folder(self.out, force=self.force) as work:
            shutil.copytree(folder, work, dirs_exist_ok=True)
        return [f"adaptor: {self.out}"]


def _refuse_inside(out: Path, model: ModelChoice) -> None:
    """Raise BadConfig if ``out`` is the folder that the model is loaded from, or inside it."""
    folder = Path(model.reference.removeprefix("hf:")).expanduser().resolve()
    if folder.is_dir() and out.resolve().is_relative_to(folder):
        raise BadConfig(f"{out} is the model's own folder {folder}, or inside it", hint="choose another folder")


def _overlap(one: Path, other: Path) -> bool:
    """Return whether two paths are equal, or one is inside the other."""
    first, second = one.resolve(), other.resolve()
    return first.is_relative_to(second) or second.is_relative_to(first)
