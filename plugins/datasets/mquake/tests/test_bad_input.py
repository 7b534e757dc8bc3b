"""Errors of invalid files: one line with the place of the problem, and a hint."""

from __future__ import annotations

import json

import pytest

from ke_core.plugin import BadData
from ke_testing.dataset import check_missing_file, read_error, with_field


@pytest.mark.parametrize(("content", "said"), [
    (b"", "is empty"),
    (b"<html>]", "is not JSON: expecting value (column 1)"),
    (b'["\xff\xfe"]', "byte 2 is not valid UTF-8"),
    (b"[" * 200_000 + b"]" * 200_000, "is not JSON"),
    ({"case_id": 1}, "contains an object, not a list of cases"),
    ("[]", "contains a text"),
    (None, "contains null"),
    ([], "contains no case"),
    ([None], ", record 1: must be an object, not null"),
], ids=range(9))  # fmt: skip
def test_invalid_file_is_rejected(stored, content, said) -> None:
    error = read_error(stored(content).cases)
    assert said in error
    assert "MQuAKE-CF-3k.json" in error


FIELDS = (
    "requested_rewrite", "questions", "answer", "answer_alias", "new_answer", "new_answer_alias", "single_hops",
    "new_single_hops", "orig",
)  # fmt: skip


@pytest.mark.parametrize(("path", "value", "said"), [
    *((name, ..., f", case 7: {name}: missing") for name in FIELDS),
    ("case_id", ..., "record 1: case_id: missing"),
    ("case_id", "7", "record 1: case_id: must be a whole number, not a text"),
    ("case_id", True, "record 1: case_id: must be a whole number, not true or false"),
    ("answer", 5, "case 7: answer: must be a text, not a whole number"),
    ("answer", " ", "case 7: answer is blank"),
    ("questions", "Which?", "case 7: questions: must be a list, not a text"),
    ("questions", [], "case 7: questions is empty"),
    ("questions.1", 3, "case 7: questions[1]: must be a text, not a whole number"),
    ("questions.1", "", "case 7: one of questions is blank"),
    ("answer_alias", {"a": 1}, "case 7: answer_alias: must be a list, not an object"),
    ("requested_rewrite.0.target_new", "Boland",
     "case 7: requested_rewrite[0].target_new: must be an object, not a text"),
    ("requested_rewrite.0.target_new", {"str": "Q3", "id": "Q3"}, "Q3 has no label, only its Wikidata id"),
    ("requested_rewrite.0.target_new.str", ..., "case 7: requested_rewrite[0].target_new.str: missing"),
    ("requested_rewrite.0.prompt", "is a citizen of",
     "case 7: requested_rewrite[0]: prompt needs exactly one {}: 'is a citizen of'"),
    ("requested_rewrite.0.prompt", "{} and {}",
     "case 7: requested_rewrite[0]: prompt needs exactly one {}: '{} and {}'"),
    ("new_single_hops.1.cloze", ..., "case 7: new_single_hops[1].cloze: missing"),
    ("orig.triples.0", ["Q1", "P27"], "case 7: orig.triples[0]: must be a list of 3 texts"),
    ("orig.triples.0", ["Q1", "P27", 5], "case 7: orig.triples[0]: must be a list of 3 texts"),
    ("orig.triples_labeled.1.2", "Q4", "Q4 has no label in orig.triples_labeled, only its Wikidata id"),
    ("orig.new_triples", [["Q1", "P27", "Q3"]],
     "case 7: new_single_hops has 2 items, orig.new_triples 1, orig.new_triples_labeled 2"),
    ("orig.edit_triples", [], "case 7: requested_rewrite has 1 items, orig.edit_triples 0"),
    ("orig.edit_triples.0", ["Q1", "P27", "Q4"],
     "case 7: requested_rewrite[0] and orig.edit_triples[0] are different facts"),
    ("orig.edit_triples.0", ["Q8", "P27", "Q3"], "case 7: orig.edit_triples[0] is not in orig.new_triples"),
    ("answer_extended", "Alaville", "case 7: answer_extended: must be a list, not a text"),
])  # fmt: skip
def test_invalid_field_is_named(record, stored, path, value, said) -> None:
    assert read_error(stored([with_field(record, path, value)]).cases).endswith(said)


def test_several_problems_are_counted(record, stored) -> None:
    wrong = with_field(with_field(record, "answer"), "questions")
    assert read_error(stored([wrong]).cases).endswith("case 7: questions: missing (and 1 more)")


def test_repeated_case_id_is_rejected(record, stored) -> None:
    assert read_error(stored([record, record]).cases).endswith("record 2: case_id: 7 occurs twice")


def test_unknown_fields_are_ignored(record, stored) -> None:
    assert len(list(stored([with_field(record, "orig.edit_triples_idx", [0])]).cases())) == 1  # as in mquake-hard


@pytest.mark.parametrize("name", ["mquake-cf", "mquake-t", "mquake-hard", "mquake-cf-3k-v2"])
def test_missing_file_has_instructions(make, name, ke_no_data) -> None:
    dataset = make(name)
    check_missing_file(dataset, ke_no_data / "data" / "mquake" / dataset.variant.file, dataset.variant.url)
    info = dataset.info()
    assert (info.sha256, info.source) == ("", dataset.variant.url)


def test_missing_data_dir_is_rejected(make, tmp_path) -> None:
    with pytest.raises(BadData, match="no folder"):
        list(make("mquake-cf", data_dir=str(tmp_path / "nowhere")).cases())


def test_unreadable_file_is_rejected(record, stored, monkeypatch) -> None:
    dataset = stored([record])
    monkeypatch.setattr(
        "pathlib.Path.read_bytes", lambda _path: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    assert "cannot read" in read_error(dataset.cases)


def test_relation_without_demonstrations_is_rejected_before_the_run(record, stored) -> None:
    dataset = stored(json.dumps([record]).replace("P36", "P190").encode())
    assert "MQuAKE-CF-3k.json has no demonstrations for relation P190" in read_error(dataset.cases)
