"""Files are written whole or not at all, and fetched only as pinned."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep

import pytest

from ke_core.spec.errors import BadData, BadRun, KEError
from ke_core.storage import files
from ke_core.storage.files import cache_dir, data_dirs, hidden_sibling, locked, sha256_of, write_atomic
from ke_core.storage.http import fetch, find_data

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Published(BaseHTTPRequestHandler):
    """Serves CONTENT; ``/short`` breaks off, ``/plain`` knows no ranges, ``/other`` is another file."""

    def __init__(self, seen, *args):
        self.seen = seen
        super().__init__(*args)

    def do_GET(self):
        start = 0
        self.seen.append((self.path, self.headers.get("Range")))
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.headers.get("Range") and self.path != "/plain":
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(CONTENT):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        body = CONTENT[::-1] if self.path == "/other" else CONTENT[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/short" and not start else body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list]]:
    seen: list = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Published, seen)) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}", seen
        served.shutdown()
        thread.join()


def rest_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.{SHA256[:12]}.part")


def test_a_file_is_fetched_once(server, tmp_path):
    url, seen = server
    for _ in range(2):
        assert fetch(f"{url}/file", SHA256, tmp_path / "file").read_bytes() == CONTENT
    assert len(seen) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(server, tmp_path):
    url, seen = server
    with pytest.raises(BadData, match=rf"stopped after {len(CONTENT) // 2} of {len(CONTENT)} bytes"):
        fetch(f"{url}/short", SHA256, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert fetch(f"{url}/short", SHA256, tmp_path / "file").read_bytes() == CONTENT
    assert seen[-1] == ("/short", f"bytes={len(CONTENT) // 2}-")
    assert not rest_of(tmp_path / "file").exists()


def test_a_server_without_ranges_sends_it_all_again(server, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"the beginning")
    assert fetch(f"{server[0]}/plain", SHA256, tmp_path / "file").read_bytes() == CONTENT


def test_a_rest_that_was_complete_is_fetched_anew(server, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"x" * len(CONTENT))
    assert fetch(f"{server[0]}/file", SHA256, tmp_path / "file").read_bytes() == CONTENT


def test_another_file_than_the_pinned_one_names_both_checksums_and_leaves_nothing(server, tmp_path):
    with pytest.raises(BadData) as wrong:
        fetch(f"{server[0]}/other", SHA256, tmp_path / "file")
    assert SHA256 in wrong.value.message
    assert hashlib.sha256(CONTENT[::-1]).hexdigest() in wrong.value.message
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("address", ["/missing", None])
def test_what_cannot_be_reached_is_one_line(server, tmp_path, address):
    url = f"{server[0]}{address}" if address else "http://127.0.0.1:9/file"
    with pytest.raises(BadData, match="cannot fetch") as wrong:
        fetch(url, SHA256, tmp_path / "file")
    assert "\n" not in wrong.value.message
    assert url not in wrong.value.message  # its host is enough


def test_data_is_found_in_the_given_folder_then_the_environment_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_DATA_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    expected = []
    for folder in (tmp_path / "cache" / "data" / "family", tmp_path / "own" / "family", tmp_path / "given"):
        folder.mkdir(parents=True)
        (folder / "file.json").write_text("{}")
        expected.append(folder / "file.json")
        assert find_data("family", "file.json", explicit=tmp_path / "given") == expected[-1]


def test_data_that_is_nowhere_says_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    with pytest.raises(BadData, match=r"file\.json of family is not here") as wrong:
        find_data("family", "file.json", url="http://example.org/file.json")
    assert "http://example.org/file.json" in wrong.value.hint
    assert str(tmp_path / "data" / "family" / "file.json") in wrong.value.hint


def test_pinned_data_is_fetched_into_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    found = find_data("family", "file.json", url=f"{server[0]}/file", sha256=SHA256)
    assert found == tmp_path / "data" / "family" / "file.json"
    with pytest.raises(
        BadData, match=r"gone\.json of family is not here: cannot fetch it from 127\.0\.0\.1:\d+: not found"
    ) as wrong:
        find_data("family", "gone.json", url=f"{server[0]}/missing", sha256=SHA256)
    assert "gone.json" in wrong.value.hint


def test_the_cache_follows_its_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("KE_CACHE_DIR", raising=False)
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "ke"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "ke"
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "mine"))
    assert data_dirs() == (tmp_path / "mine" / "data",)


def test_a_full_disk_leaves_the_old_file_whole(tmp_path):
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
def test_space_is_to_be_freed_where_there_is_too_little_of_it_alone(code):
    with (
        pytest.raises(KEError, match=f"cannot write it: {os.strerror(code).lower()}") as caught,
        files.file_errors("cannot write it"),
    ):
        raise OSError(code, os.strerror(code))
    assert ("free some space" in caught.value.hint) == (code in files.FULL)


def test_a_place_that_is_no_folder_is_said_as_that(tmp_path):
    (tmp_path / "afile").touch()
    with pytest.raises(KEError, match="not a directory") as caught:
        write_atomic(tmp_path / "afile" / "x" / "y", b"")
    assert caught.value.hint == "name a place that you may write to"


def test_ctrl_c_while_writing_leaves_the_old_file_whole(tmp_path):
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
def test_a_symbolic_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
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


def test_a_name_beside_is_hidden_and_used_by_nobody_else(tmp_path):
    names = {hidden_sibling(tmp_path / "file") for _ in range(100)}
    assert len(names) == 100
    assert all(path.parent == tmp_path and path.name.startswith(".file.") for path in names)


def test_a_lock_keeps_the_second_process_waiting(tmp_path):
    code = "import pathlib, sys, ke_core.storage.files as f\nwith f.locked(pathlib.Path(sys.argv[1])): pass"
    with locked(tmp_path / "lock"):
        other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")])
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
    assert other.wait(60) == 0


def test_who_waits_for_a_lock_file_that_is_removed_locks_the_one_that_has_its_name_then(tmp_path):
    lock, held = tmp_path / "lock", []
    waiting = threading.Thread(target=lambda: held.append(_held(lock)))
    with locked(lock):
        waiting.start()
        sleep(0.3)
        lock.unlink()
        lock.touch()  # somebody else's by now
    waiting.join(60)
    assert held == [lock.stat().st_ino]


def _held(lock):
    with locked(lock), lock.open() as stream:
        with pytest.raises(BadRun, match="in use"), locked(lock, busy="in use"):
            pass
        return os.fstat(stream.fileno()).st_ino


def test_importing_it_loads_no_network_code():
    loaded = "[m for m in ('urllib.request', 'torch', 'numpy') if m in sys.modules]"
    code = f"import sys, ke_core.storage.files; print({loaded})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
