"""The patch file: safetensors with the updates, and their metadata.

Tensors: ``left/NAME`` [out, r] and ``right/NAME`` [r, in], or ``dense/NAME`` [out, in] ([out] for a bias), where NAME
is the parameter's name. The orientation is [out, in], whatever the module stores. Metadata: ``format`` (``ke-patch``),
``patch`` (PatchInfo as canonical JSON) and ``sha256`` (of that text, which contains the hash of every tensor). The
first twelve digits of that hash are the patch's id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from attrs import frozen
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import BadPatch, canonical, loads, to_json, write_atomic
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_weights.patches.delta import shape_of
from ke_weights.patches.header import (
    AGAIN,
    FORMAT,
    changed_update,
    check_names,
    info_from,
    patch_id,
    readable_patch,
    sha256,
)
from ke_weights.patches.info import PatchInfo, WeightChange


@frozen(kw_only=True, eq=False)
class StoredPatch:
    """A patch in memory: its metadata, and one update per parameter, on the CPU."""

    info: PatchInfo
    deltas: Mapping[str, Delta]

    @property
    def id(self) -> str:
        """Twelve hex digits that identify edits, updates and base weights."""
        return patch_id(self.info)


def tensors_of(name: str, delta: Delta) -> dict[str, Tensor]:
    """Return the tensors of one update, by their names in the file."""
    if isinstance(delta, Dense):
        return {f"dense/{name}": delta.delta.contiguous()}
    return {f"left/{name}": delta.left.contiguous(), f"right/{name}": delta.right.contiguous()}


def hashes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return SHA-256 of each tensor's bytes."""
    return {name: sha256(tensor.view(torch.uint8).numpy().tobytes()) for name, tensor in tensors.items()}


def write_patch(patch: StoredPatch, to: Path) -> None:
    """Write the file completely or not at all. Raises KEError on a full disk."""
    tensors = {key: one for name, delta in patch.deltas.items() for key, one in tensors_of(name, delta).items()}
    text = canonical(to_json(patch.info))
    about = {"format": FORMAT, "patch": text, "sha256": sha256(text.encode())}
    write_atomic(to, lambda path: _save(tensors, about, path))


def _save(tensors: Mapping[str, Tensor], about: Mapping[str, str], path: Path) -> None:
    """Write a safetensors file whose bytes only depend on its content.

    safetensors writes the metadata in random order, so the header is rewritten with sorted keys.
    """
    save_file(dict(tensors), path, metadata=dict(about))
    with path.open("r+b") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = loads(stream.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        stream.seek(8)
        stream.write(text.ljust(size))


def read_patch(path: Path) -> StoredPatch:
    """Return the patch in ``path``, with every byte checked. Raises BadPatch for anything else."""
    tensors, about = _opened(path)
    info = info_from(path, about)
    deltas = {change.name: _delta(path, change, tensors) for change in info.weights}
    check_names(path, info, tensors)
    return StoredPatch(info=info, deltas=deltas)


def _opened(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    with readable_patch(path), safe_open(path, framework="pt") as stream:
        return {name: stream.get_tensor(name) for name in stream.keys()}, stream.metadata() or {}  # noqa: SIM118  not a mapping


def _delta(path: Path, change: WeightChange, tensors: Mapping[str, Tensor]) -> Delta:
    own = {key: tensors[key] for key in change.sha256 if key in tensors}
    if hashes(own) != change.sha256:
        raise changed_update(path, change.name)
    if not all(bool(one.is_floating_point() and one.isfinite().all()) for one in own.values()):
        raise BadPatch(f"the update of {change.name} in {path} contains NaN or infinity", hint="make the edit again")
    delta: Delta | None = None
    if own.keys() == {f"dense/{change.name}"}:
        delta = Dense(delta=own[f"dense/{change.name}"])
    elif own.keys() == {f"left/{change.name}", f"right/{change.name}"}:
        left, right = own[f"left/{change.name}"], own[f"right/{change.name}"]
        if left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0]:
            delta = LowRank(left=left, right=right)
    if delta is None or shape_of(delta) != change.shape:
        raise BadPatch(f"the update of {change.name} in {path} does not have the shape {change.shape}", hint=AGAIN)
    return delta
