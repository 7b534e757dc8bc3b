"""Replace a folder: a killed process leaves the old folder or the new one."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

from ke_core.plugin import file_errors, flush, hidden_sibling

OLD_SUFFIX = ".old"


def move_folder(new: Path, to: Path) -> None:
    """Rename the finished folder ``new`` to ``to``, and delete the old one.

    The old one is first renamed to a name that ``restore_moved`` recognizes. After an error, it is at ``to`` again.
    """
    with file_errors(f"cannot write {to}"):
        for path in new.rglob("*"):
            if path.is_file():
                flush(path)
        if not os.path.lexists(to):
            new.rename(to)
            return
        old = Path(f"{hidden_sibling(to)}{OLD_SUFFIX}")
        try:
            to.rename(old)
            new.rename(to)
        except BaseException:
            if not os.path.lexists(to):
                old.rename(to)
            raise
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink()


def restore_moved(to: Path) -> None:
    """Undo a ``move_folder`` that was killed halfway, so that ``to`` contains the old content again."""
    if os.path.lexists(to):
        return
    with file_errors(f"cannot write {to}"):
        for old in to.parent.glob(f".{glob.escape(to.name)}.*{OLD_SUFFIX}"):
            old.rename(to)
            return
