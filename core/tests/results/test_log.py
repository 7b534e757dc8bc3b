"""``log.jsonl``: flat lines for people, which no damage to it and no full disk makes a trouble of the run."""

import json
from pathlib import Path

from ke_core.results.lines import read_log, write_log


def test_every_line_says_when_what_and_in_which_process(tmp_path):
    file = tmp_path / "log.jsonl"
    write_log(file, "start", versions={"python": "3"})
    write_log(file, "phase", phase="judging", seconds=0.5)
    first, second = map(json.loads, file.read_text().splitlines())
    assert {"at", "event", "process", "versions"} == first.keys()
    assert first["at"].endswith("+00:00")
    assert (second["event"], second["phase"], second["seconds"]) == ("phase", "judging", 0.5)


def test_lines_that_are_none_of_ours_are_passed_over(tmp_path):
    file = tmp_path / "log.jsonl"
    write_log(file, "start")
    file.write_bytes(file.read_bytes() + b'garbage\n[1]\n{"a": 1}\n' + b'{"event": "torn')
    assert [line["event"] for line in read_log(file)] == ["start"]
    assert list(read_log(tmp_path / "none")) == []


def test_a_log_that_cannot_be_written_stops_nobody():
    write_log(Path("/dev/full"), "start")
    write_log(Path("/nowhere/at/all"), "start")


def test_no_secret_stands_in_a_log(tmp_path, monkeypatch):
    from ke_core.results import redaction

    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    redaction._secrets.cache_clear()
    write_log(tmp_path / "log", "failure", message="rejected: very-secret-value")
    redaction._secrets.cache_clear()
    assert "very-secret-value" not in (tmp_path / "log").read_text()
