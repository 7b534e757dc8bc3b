"""Files computed once and found again by everything that determines them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.data.codec import canonical, digest
from ke_core.files import file_errors, write_atomic


@frozen
class ArtifactStore:
    """``Artifacts`` in a folder: ``root/kind/<hash of the key><suffix>``, the key itself readable beside it.

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
        beside = folder / f"{name}.key.json"
        if not beside.exists():
            write_atomic(beside, canonical(key).encode())
        return folder / f"{name}{suffix}"
