"""Replace a folder atomically: a killed process leaves the old folder or the new one."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
from pathlib import Path

from ke_core.plugin import file_errors, flush, hidden_sibling

OLD_SUFFIX = ".old"
AT_FDCWD = -100  # Linux: paths are relative to the working directory
SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def move_folder(new: Path, to: Path) -> None:
    """Rename the finished folder ``new`` to ``to``, and delete the old one.

    If the system supports it, the two are exchanged in one step. Otherwise the old one is renamed first, to a name that
    ``restore_moved`` recognizes.
    """
    with file_errors(f"cannot write {to}"):
        for path in new.rglob("*"):
            if path.is_file():
                flush(path)
        if not os.path.lexists(to):
            new.rename(to)
            return
        if not exchange(new, to):
            _rename_both(new, to)
        if new.is_dir():
            shutil.rmtree(new, ignore_errors=True)
        else:
            new.unlink()


def restore_moved(to: Path) -> None:
    """Undo a ``move_folder`` that was killed halfway, so that ``to`` contains the old content again."""
    if os.path.lexists(to):
        return
    with file_errors(f"cannot write {to}"):
        for old in to.parent.glob(f".{glob.escape(to.name)}.*{OLD_SUFFIX}"):
            old.rename(to)
            return


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths of one file system. Return False, without changes, if that is not possible."""
    if os.name != "posix":
        return False
    library = ctypes.CDLL(None)
    first, second = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(AT_FDCWD, first, AT_FDCWD, second, ctypes.c_uint(SWAP)) == 0)
    if hasattr(library, "renamex_np"):
        return bool(library.renamex_np(first, second, ctypes.c_uint(SWAP)) == 0)
    return False


def _rename_both(new: Path, to: Path) -> None:
    """Exchange two paths in three steps. After an error, the old content is at ``to``."""
    old = Path(f"{hidden_sibling(to)}{OLD_SUFFIX}")
    try:
        to.rename(old)
        new.rename(to)
    except BaseException:
        if not os.path.lexists(to):
            old.rename(to)
        raise
    old.rename(new)
