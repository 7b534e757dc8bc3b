"""A file that is not what it should be: one line that says where, and one that says what to do."""

from __future__ import annotations

import json

import pytest

from ke_core.plugin import BadData, KEError


def refused(dataset) -> str:
    """The message, which must be one line and come with a hint."""
    with pytest.raises(BadData) as caught:
        list(dataset.cases())
    error = caught.value
    assert isinstance(error, KEError)
    assert "\n" not in str(error)
    assert not str(error).endswith(".")
    assert error.hint
    assert "MQuAKE-CF-3k.json" in str(error) + error.hint
    return str(error)


def spoil(record, path, value):
    *way, last = path
    at = record
    for key in way:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return [record]


def test_truncated_file_is_told_from_a_damaged_one(record, stored) -> None:
    whole = json.dumps([record]).encode()
    assert "is cut off (column" in refused(stored(whole[: len(whole) // 2]))
    assert "is not JSON: expecting value (column 1)" in refused(stored(b"<html>]"))


def test_empty_file_is_refused(stored) -> None:
    assert "is empty" in refused(stored(b""))


def test_bytes_that_are_no_text_are_refused(stored) -> None:
    assert "byte 2 is not valid UTF-8" in refused(stored(b'["\xff\xfe"]'))


def test_nesting_without_end_is_refused(stored) -> None:
    assert "is not JSON" in refused(stored(b"[" * 200_000 + b"]" * 200_000))


@pytest.mark.parametrize(("content", "said"), [
    ({"case_id": 1}, "contains an object, not a list of cases"), ("[]", "contains a text"), (None, "contains null"),
    ([], "contains no case"),
])  # fmt: skip
def test_anything_but_a_list_of_cases_is_refused(stored, content, said) -> None:
    assert said in refused(stored(content))


@pytest.mark.parametrize("item", [None, 3, "case", [], [1]])
def test_a_record_that_is_no_object_is_named_by_its_place(record, stored, item) -> None:
    assert ", record 2: must be an object, not " in refused(stored([record, item]))


@pytest.mark.parametrize("field", [
    "requested_rewrite", "questions", "answer", "answer_alias", "new_answer", "new_answer_alias", "single_hops",
    "new_single_hops", "orig",
])  # fmt: skip
def test_a_missing_field_is_named_with_its_case(record, stored, field) -> None:
    del record[field]
    assert refused(stored([record])).endswith(f", case 7: {field}: missing")


def test_a_case_without_its_id_is_named_by_its_place(record, stored) -> None:
    del record["case_id"]
    assert refused(stored([record])).endswith(", record 1: case_id: missing")


@pytest.mark.parametrize(("path", "value", "said"), [
    (["case_id"], "7", "record 1: case_id: must be a whole number, not a text"),
    (["case_id"], True, "record 1: case_id: must be a whole number, not true or false"),
    (["answer"], 5, "case 7: answer: must be a text, not a whole number"),
    (["answer"], " ", "case 7: answer is blank"),
    (["questions"], "Which?", "case 7: questions: must be a list, not a text"),
    (["questions"], [], "case 7: Length of 'questions' must be >= 1: 0"),
    (["questions", 1], 3, "case 7: questions[1]: must be a text, not a whole number"),
    (["questions", 1], "", "case 7: one of questions is blank"),
    (["answer_alias"], {"a": 1}, "case 7: answer_alias: must be a list, not an object"),
    (["requested_rewrite", 0, "target_new"], "Boland",
     "case 7: requested_rewrite[0].target_new: must be an object, not a text"),
    (["requested_rewrite", 0, "target_new", "str"], None, "case 7: requested_rewrite[0].target_new.str: missing"),
    (["requested_rewrite", 0, "prompt"], "is a citizen of",
     "case 7: requested_rewrite[0]: prompt needs exactly one {}: 'is a citizen of'"),
    (["requested_rewrite", 0, "prompt"], "{} and {}",
     "case 7: requested_rewrite[0]: prompt needs exactly one {}: '{} and {}'"),
    (["new_single_hops", 1, "cloze"], None, "case 7: new_single_hops[1].cloze: missing"),
    (["orig", "triples", 0], ["Q1", "P27"], "case 7: orig.triples[0]: must be a list of 3 texts"),
    (["orig", "triples", 0], ["Q1", "P27", 5], "case 7: orig.triples[0]: must be a list of 3 texts"),
    (["orig", "new_triples"], [["Q1", "P27", "Q3"]],
     "case 7: new_single_hops has 2 items, orig.new_triples 1, orig.new_triples_labeled 2"),
    (["orig", "edit_triples"], [], "case 7: requested_rewrite has 1 items, orig.edit_triples 0"),
    (["orig", "edit_triples", 0], ["Q1", "P27", "Q4"],
     "case 7: requested_rewrite[0] and orig.edit_triples[0] are different facts"),
    (["orig", "edit_triples", 0], ["Q8", "P27", "Q3"], "case 7: orig.edit_triples[0] is not in orig.new_triples"),
    (["answer_extended"], "Alaville", "case 7: answer_extended: must be a list, not a text"),
])  # fmt: skip
def test_a_mistyped_field_is_named_with_what_it_should_be(record, stored, path, value, said) -> None:
    assert refused(stored(spoil(record, path, value))).endswith(said)


def test_x7_a_wikidata_id_in_place_of_a_label_is_refused(record, stored) -> None:
    record["requested_rewrite"][0]["target_new"] = {"str": "Q3", "id": "Q3"}
    assert "Q3 has no label, only its Wikidata id" in refused(stored([record]))


def test_x7_nor_is_one_taken_on_a_chain(record, stored) -> None:
    record["orig"]["triples_labeled"][1][2] = "Q4"
    assert "Q4 has no label in orig.triples_labeled, only its Wikidata id" in refused(stored([record]))


def test_several_problems_are_counted(record, stored) -> None:
    del record["answer"], record["questions"]
    assert refused(stored([record])).endswith("case 7: questions: missing (and 1 more)")


def test_a_case_id_that_occurs_twice_is_refused(record, stored) -> None:
    assert refused(stored([record, record])).endswith("record 2: case_id: 7 occurs twice")


def test_fields_that_nobody_knows_are_left_alone(record, stored) -> None:
    record["orig"]["edit_triples_idx"] = [0]  # as mquake-hard has them
    assert len(list(stored([record]).cases())) == 1


@pytest.mark.parametrize("name", ["mquake-cf", "mquake-t", "mquake-hard", "mquake-cf-3k-v2"])
def test_a_file_that_is_nowhere_is_said_where_to_get_and_where_to_put(make, name, tmp_path) -> None:
    dataset = make(name)
    with pytest.raises(BadData, match="is missing") as caught:
        list(dataset.cases())
    assert dataset.variant.url in caught.value.hint
    assert str(tmp_path / "cache" / "data" / "mquake" / dataset.variant.file) in caught.value.hint
    info = dataset.info()
    assert info.sha256 == ""
    assert info.source == dataset.variant.url


def test_a_data_dir_that_is_no_folder_is_refused(make, tmp_path) -> None:
    with pytest.raises(BadData, match="no folder"):
        list(make("mquake-cf", data_dir=str(tmp_path / "nowhere")).cases())


def test_a_file_that_cannot_be_read_is_one_line(record, stored, monkeypatch) -> None:
    dataset = stored([record])
    monkeypatch.setattr(
        "pathlib.Path.read_bytes", lambda _path: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    assert "cannot read" in refused(dataset)


def test_a_relation_without_demonstrations_is_found_before_anything_is_asked(record, stored) -> None:
    text = json.dumps([record]).replace("P36", "P190")
    dataset = stored(text.encode())
    assert "MQuAKE-CF-3k.json has no demonstrations for relation P190" in refused(dataset)
