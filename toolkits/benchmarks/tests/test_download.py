"""Published files are found, or downloaded by their checksum."""

import hashlib
from pathlib import Path

import pytest

from ke_benchmarks.files.download import fetch, find_data
from ke_core.plugin import BadData
from ke_testing.http_server import PUBLISHED, PUBLISHED_SHA256


def rest_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.{PUBLISHED_SHA256[:12]}.part")


def test_file_is_downloaded_once(publisher, tmp_path):
    url, seen = publisher
    for _ in range(2):
        assert fetch(f"{url}/file", PUBLISHED_SHA256, tmp_path / "file").read_bytes() == PUBLISHED
    assert len(seen) == 1


def test_interrupted_download_resumes(publisher, tmp_path):
    url, seen = publisher
    with pytest.raises(BadData, match=rf"stopped after {len(PUBLISHED) // 2} of {len(PUBLISHED)} bytes"):
        fetch(f"{url}/breaks", PUBLISHED_SHA256, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert fetch(f"{url}/breaks", PUBLISHED_SHA256, tmp_path / "file").read_bytes() == PUBLISHED
    assert seen[-1] == ("/breaks", f"bytes={len(PUBLISHED) // 2}-")
    assert not rest_of(tmp_path / "file").exists()


def test_download_restarts_if_the_server_has_no_ranges(publisher, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"the beginning")
    assert fetch(f"{publisher[0]}/plain", PUBLISHED_SHA256, tmp_path / "file").read_bytes() == PUBLISHED
    assert not rest_of(tmp_path / "file").exists()


def test_complete_partial_file_is_downloaded_again(publisher, tmp_path):
    rest_of(tmp_path / "file").write_bytes(b"x" * len(PUBLISHED))
    assert fetch(f"{publisher[0]}/file", PUBLISHED_SHA256, tmp_path / "file").read_bytes() == PUBLISHED


def test_wrong_checksum_is_reported_and_the_file_removed(publisher, tmp_path):
    with pytest.raises(BadData) as wrong:
        fetch(f"{publisher[0]}/other", PUBLISHED_SHA256, tmp_path / "file")
    assert PUBLISHED_SHA256 in wrong.value.message
    assert hashlib.sha256(PUBLISHED[::-1]).hexdigest() in wrong.value.message
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("address", ["/missing", None])
def test_unreachable_address_gives_a_one_line_error(publisher, tmp_path, address):
    url = f"{publisher[0]}{address}" if address else "http://127.0.0.1:9/file"
    with pytest.raises(BadData, match="cannot download") as wrong:
        fetch(url, PUBLISHED_SHA256, tmp_path / "file")
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


def test_pinned_data_is_downloaded_to_the_cache(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    found = find_data("family", "file.json", url=f"{publisher[0]}/file", sha256=PUBLISHED_SHA256)
    assert found == tmp_path / "data" / "family" / "file.json"
    with pytest.raises(
        BadData, match=r"gone\.json of family is missing: cannot download it from 127\.0\.0\.1:\d+: not found"
    ) as wrong:
        find_data("family", "gone.json", url=f"{publisher[0]}/missing", sha256=PUBLISHED_SHA256)
    assert "gone.json" in wrong.value.hint
