"""JSON artifacts with a checksum, and the folder of artifacts in the cache.

A damaged artifact is noticed when it is read, and computed again. A JSON artifact is ``{"content", "sha256"}``.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.spec.codec import canonical, digest
from ke_core.spec.errors import BadData, DamagedArtifact
from ke_core.storage.files import file_errors, write_atomic
from ke_core.storage.json_reading import loads


def write_value(path: Path, content: Any) -> None:
    """Write a JSON value with its checksum, whole or not at all."""
    write_atomic(path, _bytes({"content": content, "sha256": _digest(content)}))


def read_value(path: Path, *, hint: str) -> Any:
    """Read what ``write_value`` has written; None if it is missing. Raises BadData if it is damaged."""
    if not path.exists():
        return None
    try:
        raw = loads(path.read_bytes(), surrogates=True)
        whole = raw.keys() == {"content", "sha256"} and _digest(raw["content"]) == raw["sha256"]
    except (AttributeError, OSError, ValueError):
        whole = False
    if not whole:
        raise BadData(f"{path} is damaged: its checksum does not match", hint=hint)
    return raw["content"]


def warn(error: BadData) -> None:
    """Tell the user in one line that an artifact is damaged, and what happens now."""
    warnings.warn(DamagedArtifact(f"{error.message}; {error.hint}"), stacklevel=3)


def _bytes(value: Any) -> bytes:
    """Return canonical JSON; half of a surrogate pair, which a model may generate, is written as JSON's escape."""
    return canonical(value).encode("utf-8", "backslashreplace")


def _digest(content: Any) -> str:
    return hashlib.sha256(_bytes(content)).hexdigest()


@frozen
class ArtifactStore:
    """``Artifacts`` in a folder: ``root/kind/<hash of the key><suffix>``, with the key in a JSON file next to it.

    A key that names a model names its weights (``model.digest``), never a path: two checkpoints in folders
    of one name must not share a file.
    """

    root: Path

    def path(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path:
        """Where that artifact lives. Raises TypeError for a key that is not JSON, KEError for a full disk."""
        folder = self.root / kind
        with file_errors(f"cannot write {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        name = digest(key)[:32]
        key_file = folder / f"{name}.key.json"
        if not key_file.exists():
            write_atomic(key_file, canonical(key).encode())
        return folder / f"{name}{suffix}"
