"""The patch file: safetensors with the updates, and everything about them in its metadata.

Tensors: ``left/NAME`` [out, r] and ``right/NAME`` [r, in], or ``dense/NAME`` [out, in] ([out] for a bias), where NAME
is the parameter's name and the orientation is the map's, whatever the module stores. Metadata: ``format``
(``ke-patch``), ``patch`` (PatchInfo as canonical JSON) and ``sha256`` (of that text, which holds the hash of every
tensor). The first twelve digits of that hash are the patch's id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from attrs import frozen
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import BadPatch, canonical, from_json, loads, parse_json, to_json, write_atomic
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_weights.patches.delta import shape_of
from ke_weights.patches.info import PATCH_SCHEMA, PatchInfo, WeightChange

FORMAT = "ke-patch"
AGAIN = "get the file again from where it was made"


@frozen(kw_only=True, eq=False)
class StoredPatch:
    """A patch in memory: what it says about itself, and one update a parameter, on the processor."""

    info: PatchInfo
    deltas: Mapping[str, Delta]

    @property
    def id(self) -> str:
        """Twelve hex digits: which edits, which numbers, for which weights."""
        return _hash(canonical(to_json(self.info)).encode())[:12]


def tensors_of(name: str, delta: Delta) -> dict[str, Tensor]:
    """The tensors that stand for one update, by their names in the file."""
    if isinstance(delta, Dense):
        return {f"dense/{name}": delta.delta.contiguous()}
    return {f"left/{name}": delta.left.contiguous(), f"right/{name}": delta.right.contiguous()}


def hashes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """SHA-256 of each tensor's bytes."""
    return {name: _hash(tensor.view(torch.uint8).numpy().tobytes()) for name, tensor in tensors.items()}


def write_patch(patch: StoredPatch, to: Path) -> None:
    """Write the file whole or not at all. Raises KEError on a full disk."""
    tensors = {key: one for name, delta in patch.deltas.items() for key, one in tensors_of(name, delta).items()}
    text = canonical(to_json(patch.info))
    about = {"format": FORMAT, "patch": text, "sha256": _hash(text.encode())}
    write_atomic(to, lambda path: _save(tensors, about, path))


def _save(tensors: Mapping[str, Tensor], about: Mapping[str, str], path: Path) -> None:
    """Write a safetensors file whose bytes depend on nothing but its content.

    safetensors writes the metadata in random order, so the header is written again with sorted keys.
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
    """The patch in ``path``, every byte checked. Raises BadPatch in one line for anything else."""
    tensors, about = _opened(path)
    info = _info(path, about)
    deltas = {change.name: _delta(path, change, tensors) for change in info.weights}
    expected = {key for change in info.weights for key in change.sha256}
    if tensors.keys() != expected or len(deltas) != len(info.weights):
        raise BadPatch(f"{path} holds tensors that its description does not name", hint=AGAIN)
    return StoredPatch(info=info, deltas=deltas)


def _opened(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    if not path.is_file():
        what = "is a folder, not a patch file" if path.is_dir() else "does not exist"
        raise BadPatch(f"{path} {what}", hint="name the file that ke edit --patch has written")
    try:
        with safe_open(path, framework="pt") as stream:
            return {name: stream.get_tensor(name) for name in stream.keys()}, stream.metadata() or {}  # noqa: SIM118  no mapping
    except (SafetensorError, OSError, ValueError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise BadPatch(f"{path} is truncated, or no safetensors file: {why}", hint=AGAIN) from error


def _info(path: Path, about: Mapping[str, str]) -> PatchInfo:
    if about.get("format") != FORMAT or "patch" not in about:
        raise BadPatch(f"{path} is no patch of ke: its metadata do not say so", hint="ke edit --patch writes one")
    if _hash(about["patch"].encode()) != about.get("sha256"):
        raise BadPatch(f"{path} is damaged: its description was changed", hint=AGAIN)
    raw = parse_json(about["patch"], f"{path} is damaged: its description", error=BadPatch, hint=AGAIN)
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if not isinstance(schema, int) or schema > PATCH_SCHEMA:
        raise BadPatch(
            f"{path} has format {schema}, this ke reads up to {PATCH_SCHEMA}", hint="install a newer ke-core"
        )
    return from_json(raw, PatchInfo, of=f"the description in {path}", error=BadPatch, hint=AGAIN)


def _delta(path: Path, change: WeightChange, tensors: Mapping[str, Tensor]) -> Delta:
    own = {key: tensors[key] for key in change.sha256 if key in tensors}
    if hashes(own) != change.sha256:
        raise BadPatch(f"{path} is damaged: the update of {change.name} is not what was written", hint=AGAIN)
    if not all(bool(one.is_floating_point() and one.isfinite().all()) for one in own.values()):
        raise BadPatch(f"the update of {change.name} in {path} holds NaN or infinity", hint="make the edit again")
    delta: Delta | None = None
    if own.keys() == {f"dense/{change.name}"}:
        delta = Dense(delta=own[f"dense/{change.name}"])
    elif own.keys() == {f"left/{change.name}", f"right/{change.name}"}:
        left, right = own[f"left/{change.name}"], own[f"right/{change.name}"]
        if left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0]:
            delta = LowRank(left=left, right=right)
    if delta is None or shape_of(delta) != change.shape:
        raise BadPatch(f"the update of {change.name} in {path} has not the shape {change.shape} it should", hint=AGAIN)
    return delta


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
