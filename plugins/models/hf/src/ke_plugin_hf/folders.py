"""Replace a folder in one step: a process that is killed leaves the old folder or the new one."""

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
    """Give the finished folder ``new`` the name ``to``, and delete what had that name.

    The two are exchanged in one step where the system can do that. Elsewhere the old one is renamed first, to a name
    that ``restore_moved`` knows.
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
    """Undo a ``move_folder`` that was killed halfway, so that ``to`` names the old content again."""
    if os.path.lexists(to):
        return
    with file_errors(f"cannot write {to}"):
        for old in to.parent.glob(f".{glob.escape(to.name)}.*{OLD_SUFFIX}"):
            old.rename(to)
            return


def exchange(one: Path, other: Path) -> bool:
    """Exchange what two paths of one file system name. Return False, and change nothing, where that cannot be done."""
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
    """Exchange two paths in three steps; an error in one of them leaves the old content under ``to``."""
    old = Path(f"{hidden_sibling(to)}{OLD_SUFFIX}")
    try:
        to.rename(old)
        new.rename(to)
    except BaseException:
        if not os.path.lexists(to):
            old.rename(to)
        raise
    old.rename(new)
