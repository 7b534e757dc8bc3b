"""A run that is killed at any moment and started again ends with the same texts and verdicts."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate
from ke_core.spec.errors import BadRun
from ke_core.spec.records import Batch, Replied
from ke_core.spec.results import Peak

SCRIPT = Path(__file__).with_name("fakes.py")


def texts_and_verdicts(path):
    """Return the records without times and memory."""
    return sorted(map(timeless, RunFolder.open(path).read()))


def timeless(record):
    if isinstance(record, Batch):
        return str((record.batch, record.cases, record.edits, record.skipped))
    return str(evolve(record, seconds=0.0, memory=Peak()) if isinstance(record, Replied) else record)


def start(path):
    return subprocess.Popen([sys.executable, str(SCRIPT), str(path)], env=dict(os.environ))


@pytest.mark.integration
def test_a_run_killed_twenty_times_equals_an_uninterrupted_one(fakes, tmp_path):
    job = fakes.slow_job(0)
    whole = RunFolder.create(tmp_path / "whole", job.spec)
    evaluate(job, whole)
    path = tmp_path / "killed"
    draw = random.Random()  # other moments in every test run
    alive = []
    for _attempt in range(20):
        process = start(path)
        deadline = time.monotonic() + 60
        have = size(path)
        while process.poll() is None and size(path) == have and time.monotonic() < deadline:
            time.sleep(0.01)  # starting python takes longer than the run: wait for the first new record
        time.sleep(draw.uniform(0, 0.1))
        alive.append(process.poll() is None)
        process.kill()
        process.wait()
    assert alive.count(True) >= 15, "the run was over before it was killed"
    assert start(path).wait(timeout=120) == 0
    assert texts_and_verdicts(path) == texts_and_verdicts(whole.path)
    assert (path / "scores.json").read_bytes() == (whole.path / "scores.json").read_bytes()


def size(path):
    file = path / "records.jsonl"
    return file.stat().st_size if file.exists() else 0


def test_a_run_resumes_from_records_truncated_at_any_byte(fakes, tmp_path):
    """Cut the records at 40 places, as if the process had been killed there."""
    job = fakes.make_job(6, plan=fakes.Plan(size=2))
    whole = RunFolder.create(tmp_path / "whole", job.spec)
    evaluate(job, whole)
    content = (whole.path / "records.jsonl").read_bytes()
    wanted = texts_and_verdicts(whole.path)
    for n, at in enumerate(range(0, len(content), len(content) // 40)):
        folder = RunFolder.create(tmp_path / str(n), job.spec)
        (folder.path / "records.jsonl").write_bytes(content[:at])
        evaluate(fakes.make_job(6, plan=fakes.Plan(size=2)), folder)
        assert texts_and_verdicts(folder.path) == wanted, f"cut at byte {at}"


def test_a_damaged_last_line_is_asked_again(fakes, tmp_path):
    """For each kind of last line in a killed run, and in a finished run."""
    job = fakes.make_job(4, plan=fakes.Plan(size=2))
    whole = RunFolder.create(tmp_path / "whole", job.spec)
    evaluate(job, whole)
    lines = (whole.path / "records.jsonl").read_bytes().splitlines(keepends=True)
    wanted = texts_and_verdicts(whole.path)
    last = {line.split(b'"kind":"')[1].split(b'"')[0]: at for at, line in enumerate(lines)}
    assert set(last) == {b"batch", b"replied", b"judged"}
    for at in last.values():
        folder = RunFolder.create(tmp_path / str(at), job.spec)
        spoilt = lines[at][:40] + b"\x00" * (len(lines[at]) - 41) + b"\n"
        (folder.path / "records.jsonl").write_bytes(b"".join(lines[:at]) + spoilt)
        with pytest.raises(BadRun, match=f"line {at + 1} is not JSON") as caught:
            list(folder.read())
        assert "start the same run again" in caught.value.hint
        evaluate(fakes.make_job(4, plan=fakes.Plan(size=2)), folder)
        assert texts_and_verdicts(folder.path) == wanted
        assert (folder.path / "records.damaged").read_bytes() == spoilt
        assert folder.finished
    spoilt = (whole.path / "records.jsonl").read_bytes()[:-9] + b"\xff" * 8 + b"\n"
    (whole.path / "records.jsonl").write_bytes(spoilt)
    evaluate(fakes.make_job(4, plan=fakes.Plan(size=2)), whole)
    assert texts_and_verdicts(whole.path) == wanted
    assert whole.scores()
