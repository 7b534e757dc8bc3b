import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings

from ke_core.results import writer as writer_module
from ke_core.results.folder import RUN, RunFolder, runs_in
from ke_core.results.lines import from_line, to_line
from ke_core.spec.errors import BadRun, KEError
from ke_core.spec.records import Batch, Judged, Replied
from ke_core.spec.results import Answer
from ke_core.spec.runspec import Component, DataRef, ModelRef, Plan
from ke_testing import strategies
from ke_testing.records import make_run_spec

MADE = Component(name="none", distribution="ke-plugin-none", version="0.1.0")
MODEL = ModelRef(source="hf", id="m", digest="d")
SPEC = evolve(make_run_spec(MADE, model=MODEL, edited_form="question"), dataset=DataRef(component=MADE, sha256="0"))


def line(n):
    replies = {"q": Answer(text=f"Zürich {n}\u2028\ud800")}
    return Replied(batch="b", case=str(n), phase="after", style="direct", replies=replies)


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run", SPEC)


def test_opened_run_equals_the_created_one(folder):
    found = RunFolder.open(folder.path)
    assert found == folder
    assert found.id == SPEC.id
    assert {"python", "platform", "ke-core"} <= set(found.environment)


def test_the_environment_is_not_part_of_the_id(folder):
    raw = json.loads((folder.path / "run.json").read_bytes())
    raw["environment"]["python"] = "9.9"
    (folder.path / "run.json").write_text(json.dumps(raw))
    assert RunFolder.create(folder.path, SPEC).environment["python"] == "9.9"


def test_records_are_read_in_order(folder):
    with folder.writing() as writer:
        writer.append([line(1), line(2)])
        writer.append([])
    with folder.writing() as writer:
        writer.append([line(3)])
    assert list(folder.read()) == [line(1), line(2), line(3)]


def test_a_new_run_has_no_records(folder):
    assert list(folder.read()) == []


def test_truncated_last_line_is_skipped_and_removed_by_the_next_writer(folder):
    with folder.writing() as writer:
        writer.append([line(1), line(2)])
    file = folder.path / "records.jsonl"
    whole = file.read_bytes()
    for cut in (1, 20, len(to_line(line(2))) - 1):
        file.write_bytes(whole[:-cut])
        assert list(folder.read()) == [line(1)]
        with folder.writing():
            pass
        assert file.read_bytes() == to_line(line(1))
    file.write_bytes(whole[:7])
    assert list(folder.read()) == []


def test_long_truncated_line_is_removed(folder):
    file = folder.path / "records.jsonl"
    file.write_bytes(to_line(line(1)) + b"x" * 200_000)
    with folder.writing() as writer:
        writer.append([line(2)])
    assert list(folder.read()) == [line(1), line(2)]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (b'{"kind": "replied"\n', "records.jsonl, line 2 is cut off"),
        (b'{"kind": "rumour"}\n', "line 2 is not a record"),
        (b"[]\n", "line 2 is not a record"),
        (b'{"kind": "batch", "batch": "b"}\n', "line 2 does not fit"),
        (b'{"kind": "batch", "schema": 99}\n', "line 2 was written by a newer ke"),
    ],
)
def test_error_names_a_damaged_line(folder, broken, says):
    (folder.path / "records.jsonl").write_bytes(to_line(line(1)) + broken + to_line(line(3)))
    with pytest.raises(BadRun, match=says):
        list(folder.read())


PARROT = evolve(MADE, name="parrot", version="7", options={"k": 3})
ELSE = evolve(MADE, options={"layers": [4, 5], "name": ""})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"plan": Plan(size=100), "seed": 3}, "batch 1 (here 100), seed 0 (here 3)"),
        ({"plan": Plan(size=None, limit=4)}, "batch 1 (here all), limit none (here 4)"),
        ({"editor": PARROT}, "editor none (here parrot)"),
        (
            {"seed": 1, "ke": "2", "model": ModelRef(source="hf", id="n", digest="e"), "editor": PARROT},
            "editor none (here parrot), model m (here n), seed 0 (here 1)",
        ),
        ({"editor": ELSE}, "none.layers none (here 4,5), none.name none (here empty)"),
        ({"ke": "2", "styles": ("direct", "cot")}, "styles direct (here direct,cot), ke 0.1.0 (here 2)"),
        ({"editor": evolve(MADE, version="2")}, "editor version 0.1.0 (here 2)"),
        ({"dataset": DataRef(component=MADE, sha256="1")}, "dataset sha256 0 (here 1)"),
        ({"edited_form": "cloze", "joint": False}, "edited form question (here cloze), joint true (here false)"),
    ],
)
def test_error_for_another_run_names_the_differences(folder, changed, says):
    """What people call a run by, then what they chose, then what followed; three things at most."""
    with pytest.raises(BadRun) as caught:
        RunFolder.create(folder.path, evolve(SPEC, **changed))
    assert caught.value.message == f"{folder.path} holds another run: {says}"
    assert "--out" in caught.value.hint


def test_folder_with_other_files_is_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadRun, match="contains other files, not a run"):
        RunFolder.create(tmp_path, SPEC)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_run_created_by_another_process_at_the_same_time_is_opened(tmp_path, monkeypatch):
    exists, begun = Path.exists, []

    def not_yet(path, **how):
        there = exists(path, **how)
        if path == tmp_path / "run" / RUN and not begun:
            begun.append(path)
            RunFolder.create(tmp_path / "run", SPEC)
        return there

    monkeypatch.setattr(Path, "exists", not_yet)
    assert RunFolder.create(tmp_path / "run", SPEC).id == SPEC.id
    assert begun


def test_files_of_a_process_killed_at_its_start_are_ignored(tmp_path):
    (tmp_path / ".run.json.0123456789ab").write_text("{")
    assert RunFolder.create(tmp_path, SPEC).spec == SPEC


def test_missing_run_is_a_one_line_error(tmp_path, folder):
    with pytest.raises(BadRun, match="does not exist"):
        RunFolder.open(tmp_path / "none")
    with pytest.raises(BadRun, match=r"it has no run\.json"):
        RunFolder.open(tmp_path)
    file = folder.path / "run.json"
    for content, says in (
        ("{", "is cut off"),
        ("[]", "is not a JSON object"),
        ('{"spec": {"schema": 99}}', r"written by a newer ke \(schema 99"),
        ('{"spec": {"schema": 1}}', "does not fit"),
    ):
        file.write_text(content)
        with pytest.raises(BadRun, match=says):
            RunFolder.open(folder.path)


def test_changed_run_json_is_an_error(folder):
    file = folder.path / "run.json"
    raw = json.loads(file.read_bytes())
    raw["spec"]["seed"] = 7
    file.write_text(json.dumps(raw))
    with pytest.raises(BadRun, match="changed after the run was started"):
        RunFolder.open(folder.path)


def test_full_disk_leaves_earlier_records_unchanged(folder, monkeypatch):
    with folder.writing() as writer:
        writer.append([line(1)])

        def full(lines):
            writer._stream.write(lines[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(writer, "_write", full)
        with pytest.raises(KEError, match="no space left on device") as caught:
            writer.append([line(2)])
    assert "start the same run again" in caught.value.hint
    assert (folder.path / "records.jsonl").read_bytes() == to_line(line(1))


def test_full_device_is_a_one_line_error(tmp_path):
    """``/dev/full`` takes no byte."""
    from ke_core.results.writer import Writer

    with open("/dev/full", "ab", buffering=0) as stream, pytest.raises(KEError, match="no space left"):  # noqa: PTH123
        Writer(stream, tmp_path / "records.jsonl").append([line(1)])


def test_second_writer_of_a_run_is_refused(folder):
    code = (
        "import sys; from pathlib import Path; from ke_core.results.folder import RunFolder\n"
        "with RunFolder.open(Path(sys.argv[1])).writing(): pass"
    )
    with folder.writing() as writer:
        writer.append([line(1)])
        with pytest.raises(BadRun, match="another process is writing"), folder.writing():
            pass
        other = subprocess.run(
            [sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True, check=False
        )
    assert "another process is writing" in other.stderr
    with folder.writing():
        pass
    assert list(folder.read()) == [line(1)]


def test_file_system_without_locks_is_a_one_line_error(folder, monkeypatch):
    def without(_stream, _how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(writer_module.fcntl, "flock", without)
    with (
        pytest.raises(KEError, match=r"cannot lock .*records\.jsonl: function not implemented") as caught,
        folder.writing(),
    ):
        pass
    assert "local disk" in caught.value.hint


def test_file_removed_while_it_is_opened_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(writer_module.fcntl, "flock", lambda *_: (folder.path / "records.jsonl").unlink())
    with pytest.raises(BadRun, match="another process removed"), folder.writing():
        pass


def test_only_a_damaged_last_line_is_set_aside(folder):
    file, damaged = folder.path / "records.jsonl", folder.path / "records.damaged"
    for broken in (b'{"kind": "repl\x00\x00"}\n', b"\xff\xfe\n", b"\n"):
        file.write_bytes(to_line(line(1)) + broken)
        folder.write_scores({"schema": 1})
        with folder.writing() as writer:
            folder.set_aside(writer)
            writer.append([line(2)])
        assert list(folder.read()) == [line(1), line(2)]
        assert damaged.read_bytes().endswith(broken)
        assert not (folder.path / "scores.json").exists()
        assert not folder.complete
        with folder.writing() as writer:
            folder.set_aside(writer)
        assert list(folder.read()) == [line(1), line(2)]
    events = folder.logged()
    assert [event["what"] for event in events] == ["damaged records"] * 3
    file.write_bytes(b"")
    with folder.writing() as writer:
        folder.set_aside(writer)
    assert file.read_bytes() == b""


def test_replies_after_scoring_reopen_a_run_and_judgments_do_not(folder):
    judged = Judged(batch="b", case="1", phase="after", style="direct", judge=MADE, judgments={})
    with folder.writing() as writer:
        writer.append([line(1)])
    assert not folder.finished
    folder.write_scores({"schema": 1})
    assert not folder.finished  # scores of what there is: nobody said that it is all
    folder.close()
    assert folder.finished
    with folder.writing() as writer:
        writer.append([judged])
        assert folder.finished
        writer.append([line(2)])
    assert (folder.complete, folder.finished) == (True, False)
    folder.write_scores({"schema": 1})
    assert folder.finished
    (folder.path / "records.part-1.jsonl").touch()
    assert not folder.finished


def test_runs_in_yields_damaged_runs_too(tmp_path):
    RunFolder.create(tmp_path / "a", SPEC)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.json").write_text("{")
    found = dict(runs_in(tmp_path))
    assert isinstance(found[tmp_path / "a"], RunFolder)
    assert isinstance(found[tmp_path / "b"], BadRun)


def test_scores_are_written_and_read(folder):
    with pytest.raises(BadRun, match="has not been scored"):
        folder.scores()
    folder.write_scores({"schema": 1, "metrics": []})
    assert folder.scores() == {"schema": 1, "metrics": []}
    (folder.path / "scores.json").write_text("{")
    with pytest.raises(BadRun, match="is cut off"):
        folder.scores()


@settings(max_examples=60, deadline=None)
@given(strategies.records)
def test_records_round_trip_through_lines(record):
    assert from_line(to_line(record), of="line") == record
    assert to_line(record).count(b"\n") == 1


@settings(max_examples=60, deadline=None)
@given(strategies.runspecs)
def test_specifications_round_trip_through_folders(tmp_path_factory, spec):
    path = tmp_path_factory.mktemp("run")
    assert RunFolder.create(path, spec).spec == spec == RunFolder.open(path).spec


def test_ten_thousand_records_are_read_in_seconds(folder):
    (folder.path / "records.jsonl").write_bytes(b"".join(to_line(line(n)) for n in range(10_000)))
    assert sum(1 for _ in folder.read()) == 10_000


def test_a_batch_line_is_tagged_and_canonical():
    text = to_line(Batch(batch="b", cases=("1",), edits=1))
    assert text.startswith(b'{"batch":"b","cases":["1"]')
    assert b'"kind":"batch"' in text
