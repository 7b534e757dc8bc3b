"""The folder of a managed model, with all its versions.

::

    OUT/current                      a symbolic link to the current version
    OUT/versions/0002/facts.lock.json   how the version was made
    OUT/versions/0002/patch.safetensors its edits, unless it is the base
    OUT/versions/0002/model/            a checkpoint, or a LoRA adapter; only the newest versions have one

A version is written completely before the link is replaced, which is one operation of the file system. So a process
that is killed leaves the old version or the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

from ke_core.app import Component
from ke_core.plugin import (
    BadConfig,
    BadData,
    canonical,
    file_errors,
    from_json,
    hidden_sibling,
    locked,
    read_object,
    to_json,
    write_atomic,
)
from ke_weights.patches import whole_folder
from ke_weights.patches.info import PatchBase
from ke_weights.save_targets import Format

LOCK, PATCH, MODEL, CURRENT, VERSIONS = "facts.lock.json", "patch.safetensors", "model", "current", "versions"
BASE = "base"
"""The name of the model without edits, in place of the number of a version."""
REMOVED = ".removed"
"""The file with the last number of a removed version. It is not used again: a server may cache its model by name."""
SCHEMA = 1
Action = Literal["apply", "rollback"]


@frozen(kw_only=True)
class LockedFact:
    """A fact of a version. ``edited``: by the patch; otherwise the model held it without an edit."""

    id: str
    digest: str
    statement: str
    edited: bool
    source: str = ""
    date: str = ""
    owner: str = ""


@frozen(kw_only=True)
class EditCost:
    """``edits``: their number. ``norm``: of their updates relative to the weights (r in ``budget``).

    ``rise``: of the perplexity of unrelated text, measured. ``predicted``: the same before the edit; None if unknown.
    ``limit``: the accepted rise. All three are fractions. ``forced``: the limit was ignored.
    """

    edits: int
    norm: float
    rise: float
    predicted: float | None
    limit: float
    forced: bool


@frozen(kw_only=True)
class Lock:
    """How a version was made. ``parent``: the version before it. ``restores``: the one that a rollback returned to.

    ``weights``: the digest of the model's weights with the edits. ``patch``: the id of the patch. ``verified``: the
    numbers of the check, as ``ke verify --json`` prints them. ``cost``: what the edits cost unrelated text.
    """

    schema: int = SCHEMA
    version: str
    parent: str
    action: Action
    restores: str = ""
    created: str
    author: str
    file: str
    file_digest: str
    format: Format
    base: PatchBase
    editor: Component
    seed: int
    software: Mapping[str, str]
    facts: tuple[LockedFact, ...]
    patch: str
    weights: str
    verified: Mapping[str, Any] = field(factory=dict)
    cost: EditCost | None = None

    @property
    def edited(self) -> dict[str, LockedFact]:
        """The edited facts by id."""
        return {one.id: one for one in self.facts if one.edited}


@frozen(kw_only=True)
class ManagedFolder:
    """The folder of a managed model. ``keep``: the number of newest versions whose models stay."""

    root: Path
    keep: int = 1

    def current(self) -> Lock | None:
        """Return how the current version was made, or None before the first. Raises BadData for a damaged folder."""
        link = self.root / CURRENT
        if not os.path.lexists(link):
            return None
        if not link.is_symlink():
            raise BadData(f"{link} is not a symbolic link", hint="copy the folder with its links (cp -a, rsync -a)")
        return self.read(link.readlink().name)

    def read(self, version: str) -> Lock:
        """Return how a version was made. Raises BadData if there is none, or if it is damaged."""
        path = self.folder(version) / LOCK
        if version.isdigit() and path.parent.is_dir() and not path.is_file():
            raise BadData(f"{path} is missing", hint="restore it from a copy")
        if not (version.isdigit() and path.is_file()):
            known = ", ".join(sorted(each.name for each in self.versions())) or "none"
            raise BadData(f"{self.root} has no version {version!r}", hint=f"versions: {known}")
        lock = from_json(read_object(path), Lock, of=str(path), error=BadData)
        if lock.version != version or lock.parent >= version or lock.schema > SCHEMA:
            raise BadData(f"{path} is damaged, or of a newer ke", hint="restore it from a copy")
        return lock

    def chain(self) -> Iterator[Lock]:
        """Yield the current version and those before it, newest first."""
        lock = self.current()
        while lock is not None:
            yield lock
            lock = self.read(lock.parent) if lock.parent else None

    def earlier(self, version: str) -> Lock:
        """Return how the current version, or one before it, was made. Raises BadData for any other version."""
        chain = {lock.version: lock for lock in self.chain()}
        if version not in chain:
            raise BadData(f"{self.root} has no version {version!r}", hint=f"versions: {', '.join(sorted(chain))}")
        return chain[version]

    def has_model(self, version: str) -> bool:
        """Return whether the model of a version is there. Its weights are not read."""
        return any((self.folder(version) / MODEL).glob("*.safetensors"))

    def folder(self, version: str) -> Path:
        """Return the folder of a version."""
        return self.root / VERSIONS / version

    def versions(self) -> list[Path]:
        """Return the folders of all versions, including one that a killed process did not make the current one."""
        place = self.root / VERSIONS
        return sorted(path for path in place.iterdir() if path.name.isdigit()) if place.is_dir() else []

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Reserve the folder for a change, and remove what a killed process left. Raises BadRun if another process
        is changing it.
        """
        self._refuse_others()
        with file_errors(f"cannot write {self.root}"):
            (self.root / VERSIONS).mkdir(parents=True, exist_ok=True)
        with locked(self.root / ".lock", busy=f"another process is changing {self.root}"):
            self._remove_left()
            yield

    def _remove_left(self) -> None:
        """Remove unfinished versions, and links that were not moved into place. The caller has reserved the folder."""
        for path in self.root.glob(f".{CURRENT}.*"):
            path.unlink()
        for path in (self.root / VERSIONS).glob(".[0-9]*.*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()  # the lock of a version that was being written

    def _remove_old_models(self, current: str) -> None:
        """Remove the models of versions that are not among the newest ones. ``current``: the current version."""
        names = [path.name for path in self.versions()]
        newest = [name for name in names if name <= current][-self.keep :]
        for name in names:
            if name not in newest and (self.folder(name) / MODEL).exists():
                self._remove(name, MODEL)

    def _remove(self, version: str, part: str = "") -> None:
        """Remove a version, or a part of it. A killed process leaves all of it, or a hidden folder."""
        left = hidden_sibling(self.folder(version))
        if not part:
            write_atomic(self.root / REMOVED, version.encode())
        with file_errors(f"cannot write {self.root}"):
            (self.folder(version) / part).rename(left)
        shutil.rmtree(left, ignore_errors=True)

    def next_version(self) -> str:
        """Return the number of the next version, after removing the one that a killed process did not finish.

        That version was written after the current one, and never became the current one itself.
        """
        current = self.current()
        latest = current.version if current else ""
        parents = {path.name: self.read(path.name).parent for path in self.versions()}
        for name, parent in parents.items():
            if name > latest and parent == latest and name not in parents.values():
                self._remove(name)
        removed = self.root / REMOVED
        used = [path.name for path in self.versions()] + ([removed.read_text()] if removed.is_file() else [])
        return f"{max(map(int, used), default=0) + 1:04}"

    def add(self, lock: Lock, fill: Callable[[Path], None], accepts: Callable[[], bool] = lambda: True) -> bool:
        """Write a version, whose other files ``fill`` writes, and make it the current one.

        If ``accepts`` returns False or fails, the version is removed, and the current one stays. Otherwise the models
        of versions that are not among the newest ``keep`` ones are removed. Returns the result of ``accepts``.
        """
        with whole_folder(self.folder(lock.version)) as folder:
            fill(folder)
            (folder / LOCK).write_text(canonical(to_json(lock)) + "\n", encoding="utf-8")
        accepted = False
        try:
            accepted = accepts()
        finally:
            if not accepted:
                self._remove(lock.version)
        if accepted:
            self._point_at(lock.version)
            self._remove_old_models(lock.version)
        return accepted

    def _point_at(self, version: str) -> None:
        """Replace the link to the current version, in one operation of the file system."""
        link = self.root / CURRENT
        new = hidden_sibling(link)
        with file_errors(f"cannot write {link}"):
            new.symlink_to(f"{VERSIONS}/{version}", target_is_directory=True)
            new.replace(link)

    def _refuse_others(self) -> None:
        ours = {CURRENT, VERSIONS, REMOVED, ".lock"}
        if self.root.exists() and not self.root.is_dir():
            raise BadConfig(f"{self.root} is not a folder", hint="choose another --out")
        new = self.root.is_dir() and not (self.root / VERSIONS).is_dir()
        strange = [path.name for path in self.root.iterdir() if path.name not in ours] if new else []
        if strange:
            raise BadConfig(
                f"{self.root} contains {strange[0]}, which ke apply did not write", hint="choose another --out"
            )
