"""What ``ke edit`` and ``ke patch`` write, each file or folder whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, frozen

from ke_core.app import Catalog, ModelChoice
from ke_core.plugin import DEFAULT_LOADING, BadConfig, BadPatch, KEError, ModelRequest, Progress
from ke_weights.editing import LoadedModel, open_model_for_edits
from ke_weights.patches.info import PatchBase

if TYPE_CHECKING:
    from ke_weights.patches import StoredPatch
    from ke_weights.patches.compare import OrderEffect

Format = Literal["merged", "peft"]


@frozen(kw_only=True)
class SaveTargets:
    """``out``: a folder, a checkpoint or an adapter by ``format``. ``patch``: a patch file. Either, both or none."""

    out: Path | None = None
    format: Format = "merged"
    patch: Path | None = None
    force: bool = False
    every_layer: bool = False

    def check(self, model: ModelChoice) -> None:
        """Raise BadConfig for what is in the way, before anything is computed."""
        from ke_weights.patches.place import refuse_existing, refuse_unwritable  # noqa: PLC0415  imports torch

        for path in filter(None, (self.out, self.patch)):
            refuse_unwritable(path)
        if self.out is not None and self.patch is not None and _overlap(self.out, self.patch):
            raise BadConfig(
                f"--out {self.out} and --patch {self.patch} are one place, or one lies in the other",
                hint="write the patch beside the folder",
            )
        if self.out is not None:
            refuse_existing(self.out, force=self.force)
            _refuse_inside(self.out, model)
        if self.patch is not None:
            if self.patch.is_dir():
                raise BadConfig(
                    f"{self.patch} is a folder, and a patch is a file", hint="name it, say, facts.safetensors"
                )
            refuse_existing(self.patch, force=self.force)

    def write(self, loaded: LoadedModel, patch: StoredPatch, originals: Mapping[str, Any]) -> list[str]:
        """Write everything, ``loaded``'s model being edited by ``patch``; a line about each thing written.

        The patch comes first: it holds the whole edit, and a folder that fails does not cost it.
        """
        from ke_weights.patches import write_patch  # noqa: PLC0415  imports torch

        said: list[str] = []
        if self.patch is not None:
            write_patch(patch, self.patch)
            said.append(f"patch {patch.id}: {self.patch}")
        if self.out is not None:
            try:
                said.append(self._write_folder(self.out, loaded, patch, originals))
            except KEError as error:
                if self.patch is not None:
                    error.details += (f"the patch {patch.id} is written all the same: {self.patch}",)
                raise
        return said

    def write_adaptor(self, folder: Path) -> list[str]:
        """Write a copy of the saved edit in ``folder``; a line about it."""
        from ke_weights.patches import whole_folder  # noqa: PLC0415  imports torch

        if self.out is None:
            return []
        with whole_folder(self.out, force=self.force) as work:
            shutil.copytree(folder, work, dirs_exist_ok=True)
        return [f"adaptor: {self.out}"]

    def _write_folder(self, to: Path, loaded: LoadedModel, patch: StoredPatch, originals: Mapping[str, Any]) -> str:
        from ke_weights.patches import whole_folder, write_adapter  # noqa: PLC0415  imports torch

        if self.format == "merged":
            write_merged(loaded, [patch], originals, to, force=self.force)
            return f"checkpoint: {to}"
        with whole_folder(to, force=self.force) as folder:
            rank = write_adapter(patch, loaded.model.module, folder, every_layer=self.every_layer)
        return f"adapter of rank {rank}: {to}"


def _refuse_inside(out: Path, model: ModelChoice) -> None:
    """Raise BadConfig where ``out`` is the folder that the model is loaded from, or a place in it."""
    folder = Path(model.reference.removeprefix("hf:")).expanduser().resolve()
    if out.resolve() == folder:
        raise BadConfig(f"{out} is the model itself", hint="write the edited one elsewhere")
    if folder.is_dir() and out.resolve().is_relative_to(folder):
        raise BadConfig(f"--out {out} lies in the model's own folder {folder}", hint="write the edited one elsewhere")


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths are one, or one lies in the other."""
    first, second = one.resolve(), other.resolve()
    return first.is_relative_to(second) or second.is_relative_to(first)


def write_merged(
    loaded: LoadedModel, added: Sequence[StoredPatch], originals: Mapping[str, Any], to: Path, *, force: bool
) -> None:
    """Write the edited model as a checkpoint that remembers its base, patches of an earlier edit included."""
    from ke_weights.patches import whole_folder, write_checkpoint  # noqa: PLC0415  imports torch

    past = loaded.past
    base: PatchBase = past.history.base if past else loaded.base
    patches = (*past.patches, *added) if past else tuple(added)
    kept = {**originals, **past.originals} if past else originals  # the base's tensors are the oldest ones
    with whole_folder(to, force=force) as folder:
        write_checkpoint(loaded.model, folder, base=base, patches=patches, originals=kept)


def apply_patch(
    path: Path, model: ModelChoice, to: Path, catalog: Catalog, progress: Progress, *, force: bool
) -> LoadedModel:
    """``ke patch apply``: write ``model`` edited by the patch in ``path``.

    Raises BadPatch for another model, and for one that holds the patch.
    """
    from ke_weights.patches import applied, read_patch  # noqa: PLC0415  imports torch

    patch = read_patch(path)
    SaveTargets(out=to, force=force).check(model)
    loaded = open_model_for_edits(model, catalog, progress)
    with applied(loaded.model, patch, loaded.history) as weights:
        write_merged(loaded, [patch], weights.originals(), to, force=force)
    return loaded


def revert_patch(
    folder: Path,
    patch: str,
    to: Path,
    catalog: Catalog,
    progress: Progress,
    *,
    force: bool,
    how: ModelRequest = DEFAULT_LOADING,
) -> tuple[tuple[str, ...], str]:
    """``ke patch revert``: write ``folder``'s checkpoint without ``patch`` (a file or an id; empty: without any).

    ``how`` it is loaded counts but for what is on record. The ids that were taken away, and the digest of what was
    written. Raises BadPatch where ``folder`` remembers no such patch, BadConfig where something is in the way.
    """
    from ke_weights.patches import read_history, reverted, weights_digest, whole_folder, write_checkpoint  # noqa: PLC0415

    past = read_history(folder)
    if past is None:
        raise BadPatch(f"{folder} remembers no patch", hint="ke edit --out and ke patch apply write folders that do")
    choice = recorded_model(str(folder), past.history.base, how)
    SaveTargets(out=to, force=force).check(choice)
    gone = {one.id for one in past.patches} if not patch else {_named(patch, [one.id for one in past.patches], folder)}
    loaded = open_model_for_edits(choice, catalog, progress)
    keep = [one for one in past.patches if one.id not in gone]
    touched = {name for one in keep for name in one.deltas}
    originals = {name: tensor for name, tensor in past.originals.items() if name in touched}
    with reverted(loaded.model, past, keep), whole_folder(to, force=force) as work:
        write_checkpoint(loaded.model, work, base=past.history.base, patches=keep, originals=originals)
        digest = weights_digest(loaded.model.module)
    return tuple(one.id for one in past.patches if one.id in gone), digest


def recorded_model(reference: str, base: PatchBase, how: ModelRequest) -> ModelChoice:
    """``reference`` loaded as ``how`` says, in the numbers and with the chat template of a patch's base."""
    return ModelChoice(reference=reference, how=evolve(how, dtype=base.model.dtype, chat=base.model.chat))


def _named(patch: str, ids: Sequence[str], folder: Path) -> str:
    """The id meant by a patch file, or by the beginning of an id."""
    from ke_weights.patches import read_patch  # noqa: PLC0415  imports torch

    wanted = read_patch(Path(patch)).id if Path(patch).is_file() else patch
    found = [one for one in ids if one.startswith(wanted)]
    if len(found) != 1:
        raise BadPatch(f"{folder} holds no patch {wanted!r}", hint=f"it holds: {', '.join(ids)}; or say --all")
    return found[0]


def stacking(
    one: StoredPatch,
    other: StoredPatch,
    model: str,
    catalog: Catalog,
    progress: Progress,
    *,
    how: ModelRequest = DEFAULT_LOADING,
) -> tuple[OrderEffect, ...]:
    """What the order of stacking two patches on ``model`` changes; ``how`` it is loaded as in ``revert_patch``.

    Raises BadPatch where one is not of that model.
    """
    from ke_weights.patches.compare import order_effects  # noqa: PLC0415  imports torch

    loaded = open_model_for_edits(recorded_model(model, one.info.base, how), catalog, progress)
    return order_effects(loaded.model, one, other)
