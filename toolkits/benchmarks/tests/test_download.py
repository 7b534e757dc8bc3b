"""Published files are found, or downloaded by their checksum."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ke_benchmarks.files.download import fetch, find_data
from ke_core.plugin import BadData

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


def test_file_is_downloaded_once(server, tmp_path):
    url, seen = server
    for _ in range(2):
        assert fetch(f"{url}/file", SHA256, tmp_path / "file").read_bytes() == CONTENT
    assert len(seen) == 1


def test_interrupted_download_resumes(server, tmp_path):
    url, seen = server
    with pytest.raises(BadData, match=rf"stopped after {len(CONTENT) // 2} of {len(CONTENT)} bytes"):
        fetch(f"{url}/short", SHA256, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert fetch(f"{url}/short", SHA256, tmp_path / "file").read_bytes() == CONTENT
    assert seen[-1] == ("/short", f"bytes={len(CONTENT) // 2}-")
    assert not rest_of(tmp_path / "file").exists()


def test_download_restarts_if_the_server_has_no_ranges(server, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"the beginning")
    assert fetch(f"{server[0]}/plain", SHA256, tmp_path / "file").read_bytes() == CONTENT


def test_complete_partial_file_is_downloaded_again(server, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"x" * len(CONTENT))
    assert fetch(f"{server[0]}/file", SHA256, tmp_path / "file").read_bytes() == CONTENT


def test_wrong_checksum_is_reported_and_the_file_removed(server, tmp_path):
    with pytest.raises(BadData) as wrong:
        fetch(f"{server[0]}/other", SHA256, tmp_path / "file")
    assert SHA256 in wrong.value.message
    assert hashlib.sha256(CONTENT[::-1]).hexdigest() in wrong.value.message
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("address", ["/missing", None])
def test_unreachable_address_gives_a_one_line_error(server, tmp_path, address):
    url = f"{server[0]}{address}" if address else "http://127.0.0.1:9/file"
    with pytest.raises(BadData, match="cannot download") as wrong:
        fetch(url, SHA256, tmp_path / "file")
    assert "\n" not in wrong.value.message
    assert url not in wrong.value.message  # its host is enough


def test_data_is_searched_in_folder_environment_and_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_DATA_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    expected = []
    for folder in (tmp_path / "cache" / "data" / "family", tmp_path / "own" / "family", tmp_path / "given"):
        folder.mkdir(parents=True)
        (folder / "file.json").write_text("{}")
        expected.append(folder / "file.json")
        assert find_data("family", "file.json", explicit=tmp_path / "given") == expected[-1]


def test_missing_data_error_says_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    with pytest.raises(BadData, match=r"file\.json of family is missing") as wrong:
        find_data("family", "file.json", url="http://example.org/file.json")
    assert "http://example.org/file.json" in wrong.value.hint
    assert str(tmp_path / "data" / "family" / "file.json") in wrong.value.hint


def test_pinned_data_is_downloaded_to_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    found = find_data("family", "file.json", url=f"{server[0]}/file", sha256=SHA256)
    assert found == tmp_path / "data" / "family" / "file.json"
    with pytest.raises(
        BadData, match=r"gone\.json of family is missing: cannot download it from 127\.0\.0\.1:\d+: not found"
    ) as wrong:
        find_data("family", "gone.json", url=f"{server[0]}/missing", sha256=SHA256)
    assert "gone.json" in wrong.value.hint
