"""Time and memory of the phases of a run, and its log."""

import time
import warnings

import pytest

from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate
from ke_core.runner.usage import measured_phase

MIB = 2**20


def test_a_phase_measures_time_and_peak_memory():
    with measured_phase("small") as small:
        pass
    with measured_phase("large") as large:
        held = bytearray(200 * MIB)
        time.sleep(0.1)
        del held
    assert large.seconds >= 0.1
    assert large.cpu_seconds < large.seconds + 1
    assert large.host - small.host > 100 * MIB
    assert large.device is None
    assert large.line()["ended"] == "done"


def test_a_phase_records_the_exception_that_ended_it():
    with pytest.raises(KeyboardInterrupt), measured_phase("stopped") as phase:
        raise KeyboardInterrupt
    assert phase.ended == "KeyboardInterrupt"


def test_a_phase_measures_the_devices_of_the_model():
    class Device:
        def start(self):
            self.started = True

        def peak(self):
            return 7 if self.started else 0

        rise = peak

    class Model:
        def device_meter(self):
            return Device()

    with measured_phase("on it", Model()) as phase:
        pass
    assert phase.device == 7


def test_a_run_logs_its_start_versions_phases_and_end(fakes, tmp_path, ke_cache_dir):
    job = fakes.make_job(4)
    folder = RunFolder.create(tmp_path / "run", job.spec)
    evaluate(job, folder)
    lines = folder.logged()
    assert [line.get("phase") or line["event"] for line in lines] == [
        "start", "unedited model", "edited model", "judging", "scoring", "end",
    ]  # fmt: skip
    start, end, edited = lines[0], lines[-1], lines[2]
    assert start["run"] == job.spec.id
    assert {"python", "torch", "ke-core", "fakes"} <= start["versions"].keys()
    assert (end["ended"], end["failures"], end["skipped"]) == ("done", 0, 0)
    assert edited["edits"] == 4
    assert edited["seconds"] >= edited["edit_seconds"] >= 0
    assert all(line["peak_host_bytes"] > MIB for line in lines if line["event"] == "phase")
    assert folder.finished


def test_a_run_that_fails_logs_why_with_its_traceback(fakes, tmp_path, ke_cache_dir):
    class Bug(fakes.Overwrite):
        def edit(self, session, edits):
            warnings.warn("not like this", stacklevel=1)
            raise ZeroDivisionError("a bug")

    job = fakes.make_job(2, Bug())
    folder = RunFolder.create(tmp_path / "run", job.spec)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        shown = warnings.showwarning = lambda *_words: None
        with pytest.raises(ZeroDivisionError):
            evaluate(job, folder)
        assert warnings.showwarning is shown
    by = {line["event"]: line for line in folder.logged()}
    assert (by["warning"]["what"], by["warning"]["message"]) == ("UserWarning", "not like this")
    assert by["failure"]["message"] == "a bug"
    assert "ZeroDivisionError" in by["failure"]["traceback"]
    assert by["end"]["ended"] == "failed"
    assert not folder.finished


def test_refused_edits_and_skipped_cases_are_logged_by_reason(fakes, tmp_path, ke_cache_dir):
    job = fakes.make_job(3, fakes.Overwrite(refuses=frozenset({fakes.tower(1).edits[0].id})))
    folder = RunFolder.create(tmp_path / "run", job.spec)
    evaluate(job, folder)
    lines = {line["what"]: line for line in folder.logged() if line["event"] == "warning"}
    assert (lines["edits refused"]["message"], lines["edits refused"]["count"]) == ("no such tower", 1)
    assert lines["cases skipped"]["count"] == 1
