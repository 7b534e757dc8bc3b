"""Atomic writes, locks, and the folders of the environment variables."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from time import sleep

import pytest

from ke_core.spec.errors import BadRun, KEError
from ke_core.storage import files
from ke_core.storage.files import cache_dir, data_places, hidden_sibling, locked, sha256_of, write_atomic
from ke_testing.process import imported_by


def test_folders_follow_the_environment_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("KE_CACHE_DIR", raising=False)
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "ke"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "ke"
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "mine"))
    assert data_places("towers", "a.json")[0] == tmp_path / "mine" / "data" / "a.json"


def test_a_full_disk_leaves_the_old_file_unchanged(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fills_the_disk(new: Path) -> None:
        new.write_bytes(b"half of the ne")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(new))

    with pytest.raises(KEError, match=r"cannot write .*file: no space left on device"):
        write_atomic(path, fills_the_disk)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOTDIR, errno.EACCES])
def test_only_a_full_disk_error_suggests_freeing_space(code):
    with (
        pytest.raises(KEError, match=f"cannot write it: {os.strerror(code).lower()}") as caught,
        files.file_errors("cannot write it"),
    ):
        raise OSError(code, os.strerror(code))
    assert ("free some space" in caught.value.hint) == (code in files.FULL)


def test_a_path_that_is_not_a_folder_is_reported(tmp_path):
    (tmp_path / "afile").touch()
    with pytest.raises(KEError, match="not a directory") as caught:
        write_atomic(tmp_path / "afile" / "x" / "y", b"")
    assert caught.value.hint == "choose a path that you can write to"


def test_ctrl_c_while_writing_leaves_the_old_file_unchanged(tmp_path):
    write_atomic(tmp_path / "file", b"old")

    def interrupted(_new: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "file", interrupted)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_written_file_has_the_usual_mode(tmp_path):
    def private(new: Path) -> None:
        new.write_bytes(b"x")
        new.chmod(0o600)

    (tmp_path / "usual").touch()
    write_atomic(tmp_path / "file", private)
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"x").hexdigest()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_that_is_written_again_keeps_its_mode_and_is_private_until_then(tmp_path, mode):
    path, seen = tmp_path / "file", []

    def looks(new: Path) -> None:
        new.write_bytes(b"new")
        seen.append(new.stat().st_mode & 0o777)

    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomic(path, looks)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == mode
    assert seen == [0o600]


@pytest.mark.skipif(os.name == "nt", reason="on Windows not everybody may make symbolic links")
def test_writing_follows_symbolic_links(tmp_path):
    there, link = tmp_path / "there", tmp_path / "here" / "link"
    there.mkdir()
    link.parent.mkdir()
    (there / "file").write_bytes(b"old")
    (there / "file").chmod(0o600)
    link.symlink_to(there / "file")
    (there / "dangling").symlink_to("new/file")
    write_atomic(link, b"new")
    write_atomic(there / "dangling", b"first")
    assert link.is_symlink()
    assert (there / "file").read_bytes() == b"new"
    assert (there / "file").stat().st_mode & 0o777 == 0o600
    assert (there / "new" / "file").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "dangling",
        "file",
        "file",
        "here",
        "link",
        "new",
        "there",
    ]


def test_hidden_sibling_is_unique_and_hidden(tmp_path):
    names = {hidden_sibling(tmp_path / "file") for _ in range(100)}
    assert len(names) == 100
    assert all(path.parent == tmp_path and path.name.startswith(".file.") for path in names)


@pytest.mark.integration
def test_a_second_process_waits_for_the_lock(tmp_path):
    code = "import pathlib, sys, ke_core.storage.files as f\nwith f.locked(pathlib.Path(sys.argv[1])): pass"
    with locked(tmp_path / "lock"):
        other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")])
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
    assert other.wait(60) == 0


def test_a_waiting_process_locks_the_new_file_after_a_removal(tmp_path):
    lock, held = tmp_path / "lock", []
    waiting = threading.Thread(target=lambda: held.append(_held(lock)))
    with locked(lock):
        waiting.start()
        sleep(0.3)
        lock.unlink()
        lock.touch()  # now locked by another process
    waiting.join(60)
    assert held == [lock.stat().st_ino]


def _held(lock):
    with locked(lock), lock.open() as stream:
        with pytest.raises(BadRun, match="in use"), locked(lock, busy="in use"):
            pass
        return os.fstat(stream.fileno()).st_ino


def test_importing_files_loads_no_network_code():
    assert imported_by("import ke_core.storage.files", "urllib.request", "torch", "numpy") == []
