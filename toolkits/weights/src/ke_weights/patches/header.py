"""Read the metadata of a patch file without torch. ``format`` describes the file and reads its updates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, deserialize, safe_open

from ke_core.plugin import BadPatch, canonical, from_json, parse_json, to_json
from ke_weights.patches.info import PATCH_SCHEMA, PatchInfo

FORMAT = "ke-patch"
AGAIN = "name a file that `ke edit --patch` wrote, or copy it again from its source"


def read_info(path: Path) -> PatchInfo:
    """Return the metadata of the patch in ``path``, after comparing the bytes of each update with their hash.

    Shapes and values are not checked; ``read_patch`` does that. Raises BadPatch for anything else than a patch file.
    """
    info = read_header(path)
    with readable_patch(path):
        tensors = dict(deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]  # in the compiled module
    found = {name: sha256(tensor["data"]) for name, tensor in tensors.items()}
    for change in info.weights:
        if any(found.get(key) != digest for key, digest in change.sha256.items()):
            raise changed_update(path, change.name)
    check_names(path, info, found)
    return info


def read_header(path: Path) -> PatchInfo:
    """Return the metadata of the patch in ``path`` without reading its updates. Raises BadPatch."""
    with readable_patch(path), safe_open(path, framework="np") as stream:
        return info_from(path, stream.metadata() or {})


def patch_id(info: PatchInfo) -> str:
    """Return twelve hex digits that identify edits, updates and base weights."""
    return sha256(canonical(to_json(info)).encode())[:12]


@contextmanager
def readable_patch(path: Path) -> Iterator[None]:
    """Raise BadPatch if there is no file, or if the block cannot read it as safetensors."""
    if not path.is_file():
        what = "is a folder, not a patch file" if path.is_dir() else "does not exist"
        raise BadPatch(f"{path} {what}", hint="use a file written by ke edit --patch")
    try:
        yield
    except (SafetensorError, OSError, ValueError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise BadPatch(f"{path} is truncated, or not a safetensors file: {why}", hint=AGAIN) from error


def info_from(path: Path, about: Mapping[str, str]) -> PatchInfo:
    """Return the metadata in the header of a safetensors file. Raises BadPatch."""
    if about.get("format") != FORMAT or "patch" not in about:
        raise BadPatch(f"{path} is not a patch file of ke", hint="use a file written by ke edit --patch")
    if sha256(about["patch"].encode()) != about.get("sha256"):
        raise BadPatch(f"{path} is damaged: its metadata was changed", hint=AGAIN)
    raw = parse_json(about["patch"], f"{path} is damaged: its description", error=BadPatch, hint=AGAIN)
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if not isinstance(schema, int) or schema > PATCH_SCHEMA:
        raise BadPatch(
            f"{path} has format {schema}, and this ke reads up to {PATCH_SCHEMA}", hint="install a newer ke-core"
        )
    return from_json(raw, PatchInfo, of=f"the description in {path}", error=BadPatch, hint=AGAIN)


def check_names(path: Path, info: PatchInfo, tensors: Mapping[str, object]) -> None:
    """Raise BadPatch unless the file has exactly the tensors in the metadata."""
    names = {change.name for change in info.weights}
    if tensors.keys() != {key for change in info.weights for key in change.sha256} or len(names) != len(info.weights):
        raise BadPatch(f"{path} contains tensors that its metadata does not list", hint=AGAIN)


def changed_update(path: Path, name: str) -> BadPatch:
    """Return the error for an update with another hash than in the metadata."""
    return BadPatch(f"{path} is damaged: the update of {name} was changed", hint=AGAIN)


def sha256(content: bytes | bytearray) -> str:
    """Return the SHA-256 of ``content`` as hex digits."""
    return hashlib.sha256(content).hexdigest()
