"""``ke datasets fetch | export | validate | info``: what arrives is whole and pinned, what is wrong has a name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from attrs import evolve

from ke_benchmarks.files.cases import read_cases, read_header
from ke_core.plugin import DatasetSpec, hookimpl
from ke_core.spec.dataset_info import DataFile
from ke_testing.http_server import PUBLISHED, PUBLISHED_SHA256
from ke_testing.toy import Toy, ToyConfig, toy_spec

NAME = "toy.json"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the toy dataset be read from a published file."""
    monkeypatch.delenv("KE_DATA_DIR", raising=False)

    def publish(url: str, sha256: str = PUBLISHED_SHA256, blobs: Mapping[str, str] | None = None) -> None:
        size = len(PUBLISHED) if sha256 else 0
        file = DataFile(family="toys", name=NAME, url=url, sha256=sha256, size=size, blobs=blobs or {})
        about = evolve(Toy().info(), files=(file,), published={"cases": 2, "2 hops, 1 edit": 2})
        monkeypatch.setattr(Toy, "info", lambda self: about)

    return publish


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "data" / "toys" / NAME


def left(to: Path) -> list[str]:
    """Files in the folder, but for the lock."""
    return sorted(path.name for path in to.parent.iterdir() if path.suffix != ".lock")


def test_a_file_is_fetched_by_checksum_once(ke, publisher, published, to):
    published(f"{publisher[0]}/file")
    for _ in range(2):
        status, out, _err = ke("datasets", "fetch", "toy")
        assert (status, out) == (0, f"{NAME}: {to} (65,536 bytes): this is the published file\n")
    assert to.read_bytes() == PUBLISHED
    assert left(to) == [NAME]
    assert len(publisher[1]) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(ke, publisher, published, to):
    published(f"{publisher[0]}/breaks")
    status, out, err = ke("datasets", "fetch", "toy")
    assert (status, out) == (2, "")
    assert "the server stopped after 32768 of 65536 bytes" in err
    assert not to.exists()
    assert ke("datasets", "fetch", "toy")[0] == 0
    assert to.read_bytes() == PUBLISHED
    assert publisher[1] == [("/breaks", None), ("/breaks", "bytes=32768-")]
    assert left(to) == [NAME]


def test_a_server_without_ranges_begins_again(ke, publisher, published, to):
    published(f"{publisher[0]}/breaks")
    ke("datasets", "fetch", "toy")
    published(f"{publisher[0]}/plain")
    assert ke("datasets", "fetch", "toy")[0] == 0
    assert to.read_bytes() == PUBLISHED
    assert left(to) == [NAME]


def test_file_with_another_checksum_is_not_kept(ke, publisher, published, to):
    published(f"{publisher[0]}/other")
    status, out, err = ke("datasets", "fetch", "toy")
    assert (status, out) == (2, "")
    assert f"expected {PUBLISHED_SHA256}" in err
    assert left(to) == []


def test_without_a_network_one_line_gives_the_address_and_the_folder(ke, published, to):
    published("http://127.0.0.1:9/file")
    status, _out, err = ke("datasets", "fetch", "toy")
    said, error, hint = err.splitlines()
    assert status == 2
    assert said == "downloading http://127.0.0.1:9/file"
    assert error.startswith(f"error: {NAME} of toys is missing: cannot download it from 127.0.0.1:9: ")
    assert hint.startswith(f"hint:  get it from http://127.0.0.1:9/file and put it at {to}, or ")


def test_a_file_without_a_pin_is_not_fetched(ke, publisher, published, to):
    published(f"{publisher[0]}/file", sha256="")
    status, out, err = ke("datasets", "fetch", "toy")
    assert (status, out) == (2, "")
    assert err.splitlines()[0] == f"error: {NAME} of toys is missing"
    assert f"get it from {publisher[0]}/file and put it at {to}" in err
    assert publisher[1] == []


def test_existing_file_is_compared_with_the_published_checksum(ke, publisher, published, tmp_path):
    published(f"{publisher[0]}/file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / NAME).write_bytes(b"mine")
    status, out, _err = ke("datasets", "fetch", "toy", "--data-dir", "mine")
    assert status == 1
    assert out == f"{NAME}: mine/{NAME} (4 bytes): this differs from the published file\n"
    assert publisher[1] == []


def test_embedded_dataset_needs_no_download(ke):
    status, out, _err = ke("datasets", "fetch", "toy")
    assert (status, out) == (0, "toy comes with its package: nothing to download\n")


def test_info_shows_size_published_counts_and_searched_folders(ke, publisher, published, to):
    published(f"{publisher[0]}/file")
    out = ke("datasets", "info", "toy")[1]
    assert "counts   published: cases: 2; 2 hops, 1 edit: 2\n" in out
    assert f"file     {NAME}, 65,536 bytes as published; fetched by checksum\n         not on this machine\n" in out
    assert f"searched {to.parents[1] / NAME}\n         {to}\n" in out
    assert publisher[1] == []
    ke("datasets", "fetch", "toy")
    out = ke("datasets", "info", "toy")[1]
    assert f"         {to} (65,536 bytes): this is the published file\nsha256   {PUBLISHED_SHA256}\n" in out
    assert out.count("sha256") == 1


BLOB = hashlib.sha1(b"blob %d\0" % len(PUBLISHED) + PUBLISHED, usedforsecurity=False).hexdigest()[:8]
VERSIONS = {BLOB: "one/repository", "0" * 8: "another/repository"}


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (PUBLISHED, 0, "this is the published file (one/repository)"),
        (PUBLISHED + b"\n", 1, "this differs from the published file (one/repository or another/repository)"),
    ],
)
def test_a_published_version_is_recognized_by_its_git_blob_id(ke, published, tmp_path, content, status, said):
    published("https://nowhere.invalid/file", sha256="", blobs=VERSIONS)
    (tmp_path / NAME).write_bytes(content)
    assert ke("datasets", "fetch", "toy", "--data-dir", ".")[0] == status
    out = ke("datasets", "fetch", "toy", "--data-dir", ".")[1]
    assert out == f"{NAME}: {NAME} ({len(content):,} bytes): {said}\n"


def test_of_an_unknown_file_nothing_is_said_but_its_place(ke, published, tmp_path):
    published("https://nowhere.invalid/file", sha256="")
    (tmp_path / NAME).write_bytes(PUBLISHED)
    assert ke("datasets", "fetch", "toy", "--data-dir", ".")[:2] == (0, f"{NAME}: {NAME} (65,536 bytes)\n")


def test_list_fits_100_columns_whatever_the_names(ke, plugins, monkeypatch):
    class Long:
        @hookimpl
        def ke_datasets(self) -> list[DatasetSpec]:
            made = toy_spec(metrics=("multi-hop", "classic"), judge="alias")
            return [evolve(made, name=f"mquake-remastered-cf6334-{n}", summary="many words " * 20) for n in range(2)]

    plugins.register(Long(), "ke-plugin-mquake-remastered")
    monkeypatch.delenv("COLUMNS")
    status, out, _err = ke("datasets", "list")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "mquake-remastered-cf6334-1" in out


def test_export_writes_what_the_dataset_holds(ke, tmp_path):
    status, out, _err = ke("datasets", "export", "toy", "--out", "toy.jsonl")
    assert (status, out) == (0, "toy.jsonl: 2 cases of toy\n")
    header = read_header(tmp_path / "toy.jsonl")
    assert (header.name, header.license, header.cases, header.judge) == ("toy", "Apache-2.0", 2, "exact")
    assert header.aspects == ("efficacy", "instance", "multi-hop")
    assert header.styles == ("direct", "cot")
    assert header.metrics == ("accuracy",)
    assert list(read_cases(tmp_path / "toy.jsonl")) == list(Toy(config=ToyConfig()).cases())


def test_export_does_not_write_over_a_file_unless_told_to(ke, tmp_path):
    (tmp_path / "toy.jsonl").write_text("mine")
    status, _out, err = ke("datasets", "export", "toy", "--out", "toy.jsonl")
    assert (status, err.splitlines()[0]) == (2, "error: toy.jsonl exists: add --force to replace it")
    assert (tmp_path / "toy.jsonl").read_text() == "mine"
    assert ke("datasets", "export", "toy", "--out", "toy.jsonl", "--force")[0] == 0


def test_a_sound_dataset_and_its_file_validate(ke):
    assert ke("datasets", "validate", "toy")[:2] == (0, "toy: 2 cases, no problems\n")
    ke("datasets", "export", "toy", "--out", "toy.jsonl")
    assert ke("datasets", "validate", "toy.jsonl")[:2] == (0, "toy.jsonl: 2 cases, no problems\n")


@pytest.fixture
def spoilt(ke, tmp_path: Path) -> Path:
    """Three lines: one that does not read, case 1 with a warning, case 2 twice."""
    ke("datasets", "export", "toy", "--out", "toy.jsonl")
    head, one, two = map(json.loads, (tmp_path / "toy.jsonl").read_text().splitlines())
    one["probes"] = one["probes"][1:]
    lines = [{**head, "cases": 4}, {"id": 7}, one, two, two]
    (tmp_path / "toy.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path / "toy.jsonl"


def test_validate_names_every_problem_and_its_cases(ke, spoilt):
    status, out, _err = ke("datasets", "validate", spoilt.name)
    flat = " ".join(out.split())
    assert status == 1
    assert "error record toy.jsonl, line 2: id: must be a text, not a whole number" in flat
    assert "error id two cases have the id '2' 1 2" in flat
    assert "warning edit no efficacy probe tests edit" in flat
    assert flat.endswith("toy.jsonl: 3 cases, 2 errors, 1 warning")


def test_validate_with_warnings_only_is_no_failure(ke, spoilt):
    lines = spoilt.read_text().splitlines()
    spoilt.write_text("\n".join([lines[0].replace('"cases": 4', '"cases": 2'), *lines[2:4]]) + "\n")
    status, out, _err = ke("datasets", "validate", spoilt.name)
    assert status == 0
    assert "0 errors, 1 warning" in out


def test_validate_as_json(ke, spoilt):
    status, out, _err = ke("datasets", "validate", spoilt.name, "--json")
    found = json.loads(out)
    assert (status, found["cases"]) == (1, 3)
    assert [(problem["level"], problem["rule"], problem["cases"]) for problem in found["problems"]] == [
        ("error", "record", []),
        ("error", "id", ["2"]),
        ("warning", "edit", ["1"]),
    ]


@pytest.mark.parametrize(
    ("name", "error"),
    [("nowhere.jsonl", "cannot read nowhere.jsonl: no such file or directory"), ("toi", "no dataset called 'toi'")],
)
def test_validate_of_what_is_not_there_is_one_line(ke, name, error):
    status, out, err = ke("datasets", "validate", name)
    assert (status, out, err.splitlines()[0]) == (2, "", f"error: {error}")


def test_a_large_table_of_problems_is_cut_and_counted(ke, spoilt):
    lines = spoilt.read_text().splitlines()
    spoilt.write_text("\n".join([lines[0], *(["{"] * 99)]))
    out = ke("datasets", "validate", spoilt.name)[1]
    assert "and 40 more: use --json to list all" in out
    assert len(out.splitlines()) < 300
