"""A folder replaces another one completely or not at all."""

import errno
from pathlib import Path

import pytest

from ke_core.plugin import KEError
from ke_plugin_hf.folders import move_folder


def test_a_finished_folder_replaces_the_old_one(tmp_path):
    for name in ("new", "to"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    move_folder(tmp_path / "new", tmp_path / "to")
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["to", "to/new"]


def test_a_finished_folder_replaces_a_file(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "to").touch()
    move_folder(tmp_path / "new", tmp_path / "to")
    assert [path.name for path in tmp_path.iterdir()] == ["to"]
    assert (tmp_path / "to").is_dir()


def test_a_failed_move_keeps_the_old_folder(tmp_path, monkeypatch):
    for name in ("new", "to"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    rename, calls = Path.rename, []

    def second_fails(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(errno.EIO, "input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(KEError, match="input/output error"):
        move_folder(tmp_path / "new", tmp_path / "to")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "new", "new/new", "to", "to/to",
    ]  # fmt: skip
