"""Folders that are written whole or not at all."""

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
"""What makes a folder a checkpoint or an adapter: a file, and what it says. Nothing else is ever replaced."""
PARTS = (
    "config.json", "*_config.json", "model*.safetensors", "adapter_model.*", "pytorch_model*.bin", "*.index.json",
    "*token*.json", "*.model", "vocab.*", "merges.txt", "chat_template*", "README.md", "ke_patches",
    "ke_edit.json", "ke_state.safetensors",
)  # fmt: skip
"""What the files are called that saving one writes; whatever else lies in the folder is somebody's own."""
FORCE = "choose another place, or replace it with --force"
KEPT = "it is not replaced: choose another place"


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
    """Raise BadConfig where nothing can be written at ``to``, as far as that shows; missing folders are made then."""
    place = to.resolve()
    there = next((folder for folder in place.parents if os.access(folder, os.F_OK)), place)
    if not there.is_dir():
        raise BadConfig(f"cannot write {to}: {there} is no folder", hint=CHOOSE_WRITABLE)
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadConfig(f"cannot write {to}: permission denied in {there}", hint=CHOOSE_WRITABLE)


def _refuse_others(folder: Path) -> None:
    """Raise BadConfig unless ``folder`` holds a checkpoint or an adapter, and nothing but that."""
    if not any(_says(folder / mark, key) for mark, key in MARKS.items()):
        raise BadConfig(f"{folder} holds something else than a model or an adapter", hint=KEPT)
    own = next((path for path in sorted(folder.iterdir()) if not _is_part(path)), None)
    if own is not None:
        raise BadConfig(f"{folder} holds {own.name}, which is no part of a model or an adapter", hint=KEPT)


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
    """A folder to fill, which becomes ``to`` when the block ends well, and is removed when it does not.

    A process that is killed leaves a hidden folder beside ``to``; the next one that writes there removes it. Raises
    BadConfig where something is in the way, KEError for a full disk.
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
            with suppress(OSError):  # Windows removes nothing that is open
                lock.unlink()


def _readable(folder: Path) -> None:
    """Give every file the usual mode: safetensors makes its files private."""
    probe = folder / ".mode"
    probe.touch()
    mode = probe.stat().st_mode
    probe.unlink()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def _remove_left(to: Path) -> None:
    """Delete what killed processes left next to ``to``. While ``to`` is absent nothing is: it may be all there is."""
    if not os.path.lexists(to):
        return
    ours = re.compile(re.escape(f".{to.name}.") + rf"[0-9a-f]{{12}}({re.escape(OLD_SUFFIX)})?")
    for left in to.parent.iterdir():
        if ours.fullmatch(left.name) and left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif ours.fullmatch(left.name):
            left.unlink()
