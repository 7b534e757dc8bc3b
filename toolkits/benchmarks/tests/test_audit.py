"""``ke audit`` on the toy benchmark: two monuments whose first hops are edited."""

import json

import pytest

from ke_benchmarks import read_cases, read_header


def test_audit_prints_a_table_and_the_time(ke):
    status, out, err = ke("audit", "toy")
    assert status == 0
    assert "toy: 2 cases, rule question, seed 100" in out
    assert "conflicting edits: 0 questions" in out
    assert "audited in" in err


def test_json_is_written_to_standard_output(ke):
    status, out, _err = ke("audit", "toy", "--json", "--num-edited", "2")
    assert status == 0
    found = json.loads(out)
    assert found["contamination"][0]["edited_victims"]["cases"] == 0
    assert sorted(found["contamination"][0]["ids"]) == ["1", "2"]


def test_fix_and_select_write_readable_files(ke, tmp_path):
    status, _out, err = ke("audit", "toy", "--fix", "fixed.jsonl", "--select", "together.jsonl")
    assert status == 0
    assert "2 of 2 cases selected (upper bound 2" in err
    assert (tmp_path / "fixed.changes.jsonl").read_text() == ""
    for name, how in (("fixed", "fixed"), ("together", "selected")):
        assert read_header(tmp_path / f"{name}.jsonl").name == f"toy-{how}"
        assert [case.id for case in read_cases(tmp_path / f"{name}.jsonl")] == ["1", "2"]
    status, _out, err = ke("audit", "toy", "--fix", "fixed.jsonl")
    assert status == 2
    assert "add --force" in err
    assert ke("audit", "toy", "--fix", "fixed.jsonl", "--force")[0] == 0


def test_missing_information_is_compared_with_the_corrected_dataset(ke):
    out = ke("audit", "toy", "--corrected", "toy")[1]
    assert "against the corrected questions of 2 cases: precision" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rule", "qid"), "unknown rule 'qid'"),
        (("--num-edited", "1,3"), "cannot edit 3 of 2 cases"),
        (("--num-edited", "1;2"), "is not a list of numbers"),
        (("--num-edited", "-1"), "is not a list of numbers"),
        (("--corrected", "nowhere"), "nowhere"),
    ],
)
def test_invalid_arguments_give_an_error_without_a_traceback(ke, arguments, words):
    status, _out, err = ke("audit", "toy", *arguments)
    assert status != 0
    assert words in err
    assert "Traceback" not in err
