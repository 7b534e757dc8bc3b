"""Folders that are written whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ke_core.errors import BadConfig
from ke_core.files import beside, explained, locked, move_folder

MARKS = ("config.json", "adapter_config.json")
"""A folder that holds one of these is a checkpoint or an adapter: nothing else is ever replaced."""
FORCE = "choose another place, or replace it with --force"


def refuse_existing(to: Path, *, force: bool) -> None:
    """Raise BadConfig unless ``to`` is free: absent, an empty folder, or with ``force`` a checkpoint or a file."""
    if not to.exists() and not to.is_symlink():
        return
    if to.is_dir():
        if not any(to.iterdir()):
            return
        if force and not any((to / mark).is_file() for mark in MARKS):
            raise BadConfig(
                f"{to} holds something else than a model or an adapter", hint="it is not replaced: choose another place"
            )
    if not force:
        raise BadConfig(f"{to} exists already", hint=FORCE)


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
            _remove_left(to)
            work = beside(to)
            with explained(f"cannot write {to}"):
                work.mkdir()
            try:
                yield work
                _readable(work)
                refuse_existing(to, force=force)
                move_folder(work, to)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        finally:
            lock.unlink(missing_ok=True)


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
    """What a process that was killed left; nobody else writes while the lock is ours."""
    ours = re.compile(re.escape(f".{to.name}.") + "[0-9a-f]{12}")
    for left in to.parent.iterdir():
        if ours.fullmatch(left.name) and left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
