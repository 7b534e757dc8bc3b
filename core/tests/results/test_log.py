"""``log.jsonl``: flat lines for people, which no damage to it and no full disk makes a trouble of the run."""

import json
from pathlib import Path

from ke_core.results.lines import read_log, write_log


def test_log_lines_have_time_event_and_process(tmp_path):
    file = tmp_path / "log.jsonl"
    write_log(file, "start", versions={"python": "3"})
    write_log(file, "phase", phase="judging", seconds=0.5)
    first, second = map(json.loads, file.read_text().splitlines())
    assert {"at", "event", "process", "versions"} == first.keys()
    assert first["at"].endswith("+00:00")
    assert (second["event"], second["phase"], second["seconds"]) == ("phase", "judging", 0.5)


def test_unknown_log_lines_are_skipped(tmp_path):
    file = tmp_path / "log.jsonl"
    write_log(file, "start")
    file.write_bytes(file.read_bytes() + b'garbage\n[1]\n{"a": 1}\n' + b'{"event": "torn')
    assert [line["event"] for line in read_log(file)] == ["start"]
    assert list(read_log(tmp_path / "none")) == []


def test_unwritable_log_is_ignored():
    write_log(Path("/dev/full"), "start")
    write_log(Path("/nowhere/at/all"), "start")


def test_log_contains_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    write_log(tmp_path / "log", "failure", message="rejected: very-secret-value")
    assert "very-secret-value" not in (tmp_path / "log").read_text()
