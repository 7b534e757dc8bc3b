"""Records of another format, of a run that is not finished, or edited manually: said, and never a wrong table."""

import json

import pytest

from ke_core.results.folder import RunFolder

RUN = ("eval", "--editor", "other", "--dataset", "toy", "--model", "echo:1")
AGAIN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")
"""What made the run ``evaluated``."""


def lines_of(folder):
    return (folder / "records.jsonl").read_text().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("schema", "says"),
    [(99, "was written by a newer ke (schema 99"), (0, "was written by an older ke (schema 0"),
     ("1", "has no schema number"), (True, "has no schema number")],
)  # fmt: skip
@pytest.mark.parametrize("command", ["report", "score", "judge", "annotate", "compare"])
def test_another_format_is_said_in_one_line(ke, evaluated, schema, says, command):
    lines = lines_of(evaluated)
    raw = json.loads(lines[1]) | {"schema": schema}
    (evaluated / "records.jsonl").write_text("".join([lines[0], json.dumps(raw) + "\n", *lines[2:]]))
    (evaluated / "scores.json").unlink()
    more = {"annotate": ("--out", "s.csv"), "compare": ("other",)}.get(command, ())
    if command == "compare":
        assert ke(*RUN, "--out", "other")[0] == 0
    status, _out, err = ke(command, "done", *more)
    assert status == 2
    assert f"records.jsonl, line 2 {says}" in err


@pytest.mark.parametrize(
    ("schema", "says"), [(99, "was written by a newer ke (schema 99"), (0, "was written by an older ke (schema 0")]
)
@pytest.mark.parametrize("file", ["run.json", "scores.json"])
def test_so_it_is_of_the_other_files_of_a_run(ke, evaluated, file, schema, says):
    raw = json.loads((evaluated / file).read_text())
    (raw["spec"] if file == "run.json" else raw)["schema"] = schema
    (evaluated / file).write_text(json.dumps(raw))
    status, out, err = ke("report", "done")
    assert (status, out) == (2, "")
    assert f"{file} {says}" in err


def test_an_answer_changed_by_hand_after_scoring_is_noticed(ke, evaluated):
    file = evaluated / "records.jsonl"
    file.write_text(file.read_text().replace('"text":"Rome"', '"text":"Bonn"', 1))
    status, _out, err = ke("report", "done")
    assert status == 2
    assert "records.jsonl was changed manually after it was scored" in err
    assert "ke score done scores it as it is now" in err
    assert "damaged" in ke("runs", ".")[1]
    assert ke("score", "done")[0] == 0
    assert ke("report", "done")[0] == 0


def test_run_with_edited_verdicts_is_not_resumed(ke, evaluated):
    file, scores = evaluated / "records.jsonl", (evaluated / "scores.json").read_bytes()
    changed = file.read_text().replace('"verdict":"wrong"', '"verdict":"right"')
    file.write_text(changed)
    again = (*AGAIN, "--out", "done")
    status, out, err = ke(*again)
    assert (status, out) == (2, "")
    assert "records.jsonl was changed manually after it was scored" in err
    assert "start again with another --out; ke score done scores it as it is now" in err
    assert (file.read_text(), (evaluated / "scores.json").read_bytes()) == (changed, scores)
    assert ke("report", "done")[0] == 2
    assert ke("score", "done")[0] == 0
    assert ke(*again)[0] == 0


@pytest.mark.parametrize("gone", [(), ("scores.json",), ("scores.json", "records.seal.json")])
def test_run_with_records_appended_after_scoring_is_resumed(ke, evaluated, gone):
    """Judged again, killed while it wrote a line, killed while it scored."""
    assert ke("judge", "done", "--judge", "exact")[0] == 0
    lines = lines_of(evaluated)
    with (evaluated / "records.jsonl").open("a") as stream:
        stream.write(lines[-1])
        stream.write('{"torn')
    for name in gone:
        (evaluated / name).unlink()
    assert ke(*AGAIN, "--out", "done")[0] == 0
    assert ke("report", "done")[0] == 0
    assert lines_of(evaluated)[: len(lines)] == lines


def test_records_that_were_cut_off_after_scoring_are_noticed(ke, evaluated):
    (evaluated / "records.jsonl").write_text("".join(lines_of(evaluated)[:-1]))
    for command in (("report", "done"), (*AGAIN, "--out", "done")):
        assert "was changed manually after it was scored" in ke(*command)[2]


def test_records_that_grow_are_no_change(ke, evaluated):
    with (evaluated / "records.jsonl").open("a") as stream:
        stream.write(lines_of(evaluated)[-1])
        stream.write('{"torn')
    assert ke("report", "done")[0] == 0


def test_replies_to_an_edit_that_nobody_made_are_noticed(ke, evaluated):
    kept = [line for line in lines_of(evaluated) if json.loads(line)["kind"] != "batch"]
    (evaluated / "records.jsonl").write_text("".join(kept))
    status, _out, err = ke("score", "done")
    assert status == 2
    assert "records.jsonl was changed manually: it has replies of case 1 to batch-1, but no line" in err


def test_a_reply_that_no_judgment_is_about_is_noticed(ke, evaluated):
    lines = [json.loads(line) for line in lines_of(evaluated)]
    judged = next(line for line in lines if line["kind"] == "judged" and "hop-1" in line["judgments"])
    del judged["judgments"]["hop-1"]
    (evaluated / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, _out, err = ke("score", "done")
    assert status == 2
    assert "case 1 has a reply to query hop-1 that no judgment is about" in err


def test_unfinished_run_is_marked_under_its_table(ke, evaluated):
    kept = [line for line in lines_of(evaluated) if '"batch":"batch-2"' not in line]
    (evaluated / "records.jsonl").write_text("".join(kept))
    (evaluated / "scores.json").unlink()
    status, out, _err = ke("report", "done")
    assert status == 0
    assert "not finished: 1 of 2 cases have no answers of the edited model yet" in " ".join(out.split())


def test_a_run_that_was_not_judged_yet_says_what_to_do(ke, evaluated):
    kept = [line for line in lines_of(evaluated) if json.loads(line)["kind"] != "judged"]
    (evaluated / "records.jsonl").write_text("".join(kept))
    (evaluated / "scores.json").unlink()
    for command in (("report", "done"), ("annotate", "done", "--out", "s.csv")):
        status, _out, err = ke(*command)
        assert (status, "has not been judged yet" in err, "ke judge done" in err) == (2, True, True)


@pytest.mark.parametrize("command", [("report",), ("score",), ("judge",), ("annotate", "--out", "s.csv")])
def test_run_interrupted_before_the_first_question_names_the_command_that_resumes_it(ke, evaluated, command):
    """Judging it would leave it as it is."""
    for name in ("scores.json", "records.seal.json"):
        (evaluated / name).unlink()
    (evaluated / "records.jsonl").write_text("")
    status, out, err = ke(command[0], "done", *command[1:])
    assert (status, out) == (2, "")
    assert err == (
        "error: done was interrupted before any case was asked\n"
        "hint:  start its ke eval again to resume it: ke runs show done shows its settings\n"
    )
    assert "sayer" in ke("runs", "show", "done")[1]
    assert ke(*AGAIN, "--out", "done")[0] == 0


@pytest.mark.parametrize("unedited", [False, True])
def test_run_with_all_cases_skipped_gives_the_reason(ke, evaluated, unedited):
    """Also if the unedited model has answered."""
    lines = [json.loads(line) for line in lines_of(evaluated)]
    before = [line for line in lines if line["kind"] != "batch" and line.get("phase") == "before"]
    kept = [line for line in lines if line["kind"] == "batch"]
    for line in kept:
        line["skipped"] = dict.fromkeys(line["cases"], "edit e: it names no new object")
    kept += before if unedited else []
    (evaluated / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    for name in ("scores.json", "records.seal.json"):
        (evaluated / name).unlink()
    RunFolder.open(evaluated).close()
    for command in ("report", "judge"):
        status, _out, err = ke(command, "done")
        assert (status, "no case of done was asked: 2 skipped, the first of them because edit e" in err) == (2, True)


def test_a_broken_seal_is_an_error(ke, evaluated):
    seal = evaluated / "records.seal.json"
    seal.write_text("{}")
    status, _out, err = ke("report", "done")
    assert (status, "records.seal.json does not fit" in err) == (2, True)


def test_a_run_that_cannot_be_scored_yet_is_left_out_of_the_report_of_others(ke, evaluated):
    assert ke(*RUN, "--out", "other")[0] == 0
    (evaluated / "scores.json").unlink()
    lines = [line for line in lines_of(evaluated) if json.loads(line)["kind"] != "judged"]
    (evaluated / "records.jsonl").write_text("".join(lines))
    status, out, err = ke("report", "done", "other")
    assert status == 0, err
    assert "skipped: " in err
    assert "has not been judged yet" in err
    assert "other" in out
    assert ke("report", "done")[0] == 2
