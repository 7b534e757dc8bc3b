"""Folders that are written completely or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ke_core.plugin import CHOOSE_WRITABLE, BadConfig, file_errors, hidden_sibling, loads, locked
from ke_plugin_hf.folders import OLD_SUFFIX, move_folder, restore_moved

MARKS = {"config.json": "model_type", "adapter_config.json": "peft_type", "ke_edit.json": "editor"}
"""Files that identify a checkpoint or an adapter, and a field of theirs. Nothing else is ever replaced."""
PARTS = (
    "config.json", "*_config.json", "model*.safetensors", "adapter_model.*", "pytorch_model*.bin", "*.index.json",
    "*token*.json", "*.model", "vocab.*", "merges.txt", "chat_template*", "README.md", "ke_patches",
    "ke_edit.json", "ke_state.safetensors",
)  # fmt: skip
"""Names of the files that saving writes. All other files in a folder belong to the user."""
FORCE = "choose another path, or replace it with --force (force=True in Python)"
KEPT = "choose another path; ke does not replace this folder"


def refuse_existing(to: Path, *, force: bool) -> None:
    """Raise BadConfig unless ``to`` is free: absent, an empty folder, or with ``force`` a checkpoint or a file."""
    if not to.exists() and not to.is_symlink():
        return
    if to.is_dir():
        if not any(to.iterdir()):
            return
        if force:
            _refuse_others(to)
    if not force:
        raise BadConfig(f"{to} exists already", hint=FORCE)


def refuse_unwritable(to: Path) -> None:
    """Raise BadConfig if ``to`` is visibly not writable; missing folders are created later."""
    place = to.resolve()
    there = next((folder for folder in place.parents if os.access(folder, os.F_OK)), place)
    if not there.is_dir():
        raise BadConfig(f"cannot write {to}: {there} is not a folder", hint=CHOOSE_WRITABLE)
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadConfig(f"cannot write {to}: permission denied in {there}", hint=CHOOSE_WRITABLE)


def _refuse_others(folder: Path) -> None:
    """Raise BadConfig unless ``folder`` contains a checkpoint or an adapter, and nothing else."""
    if not any(_says(folder / mark, key) for mark, key in MARKS.items()):
        raise BadConfig(f"{folder} is neither a model nor an adapter", hint=KEPT)
    own = next((path for path in sorted(folder.iterdir()) if not _is_part(path)), None)
    if own is not None:
        raise BadConfig(f"{folder} contains {own.name}, which is not part of a model or an adapter", hint=KEPT)


def _says(file: Path, key: str) -> bool:
    try:
        raw = loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(raw, dict) and key in raw


def _is_part(path: Path) -> bool:
    return any(map(path.match, PARTS)) and path.is_dir() == (path.name == "ke_patches")


@contextmanager
def whole_folder(to: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a folder to fill, which becomes ``to`` if the block succeeds, and is removed if it fails.

    A killed process leaves a hidden folder next to ``to``; the next process that writes there removes it. Raises
    BadConfig if ``to`` exists, KEError for a full disk.
    """
    to = to.resolve()
    refuse_existing(to, force=force)
    lock = to.with_name(f".{to.name}.lock")
    with locked(lock):
        try:
            restore_moved(to)
            refuse_existing(to, force=force)
            _remove_left(to)
            work = hidden_sibling(to)
            with file_errors(f"cannot write {to}"):
                work.mkdir()
            try:
                yield work
                _readable(work)
                refuse_existing(to, force=force)
                move_folder(work, to)
                _remove_left(to)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        finally:
            with suppress(OSError):  # Windows does not remove open files
                lock.unlink()


def _readable(folder: Path) -> None:
    """Give every file the default mode: safetensors makes its files private."""
    probe = folder / ".mode"
    probe.touch()
    mode = probe.stat().st_mode
    probe.unlink()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _remove_left(to: Path) -> None:
    """Delete what killed processes left next to ``to``, unless ``to`` is missing: it may be the only copy."""
    if not os.path.lexists(to):
        return
    ours = re.compile(re.escape(f".{to.name}.") + rf"[0-9a-f]{{12}}({re.escape(OLD_SUFFIX)})?")
    for left in to.parent.iterdir():
        if ours.fullmatch(left.name) and left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif ours.fullmatch(left.name):
            left.unlink()
