"""Errors of invalid files: one line with the place of the problem, and a hint."""

from __future__ import annotations

import json

import pytest

from ke_testing.dataset import build_dataset, check_missing_file, read_error, with_field


def test_missing_file_has_instructions(ke_no_data) -> None:
    place = ke_no_data / "data" / "mquake-remastered" / "CF9k.json"
    address = "huggingface.co/datasets/henryzhongsc/MQuAKE-Remastered"
    check_missing_file(build_dataset("mquake-remastered-cf9k"), place, address)


@pytest.mark.parametrize("whole", [lambda r: json.dumps([r]), json.dumps], ids=["list", "lines"])
def test_truncated_file_is_reported(record, stored, whole) -> None:
    content = whole(record).encode()
    assert "is cut off (column" in read_error(stored(content[: len(content) // 2]).cases)


REWRITE = "requested_rewrite"
FIELDS = (
    REWRITE, "questions", "answer", "answer_alias", "new_answer", "new_answer_alias", "single_hops", "new_single_hops",
    "orig_triples", "orig_triples_labeled", "new_triples", "new_triples_labeled", "split",
)  # fmt: skip


@pytest.mark.parametrize(("path", "value", "said"), [
    *((name, ..., f"case 7: {name}: missing") for name in FIELDS),
    ("case_id", "7", "record 1: case_id: must be a whole number, not a text"),
    ("answer", "", "case 7: answer is blank"),
    ("new_answer", None, "case 7: new_answer: must be a text, not null"),
    ("questions", [], "case 7: questions is empty"),
    ("orig_triples.0", ["Q1", "P27"], "case 7: orig_triples[0]: must be a list of 3 texts"),
    ("new_triples", [["Q17", "P27", "Q3"]],
     "case 7: new_single_hops has 2 items, orig.new_triples 1, orig.new_triples_labeled 2"),
    ("orig_triples_labeled.1.0", "Q2", "Q2 has no label in orig.triples_labeled, only its Wikidata id"),
    (f"{REWRITE}.0.prompt", "citizen of", "case 7: requested_rewrite[0]: prompt needs exactly one {}: 'citizen of'"),
    (f"{REWRITE}.0.target_new_str", "Cland", "case 7: requested_rewrite[0] is not a hop of new_triples_labeled"),
    (f"{REWRITE}.0.target_new_str", "", "case 7: requested_rewrite[0]: target_new_str is blank"),
    (f"{REWRITE}.0.target_true_str", "Q969340", "target_true_str is Q969340: no label, only its Wikidata id"),
    ("split", [], "case 7: split: must be an object, not a list"),
    ("split.100", "unedited", "must be a list, not a text"),
    ("split.100", ["train"], "case 7: split.100: unknown label 'train'; expected one of edited, unedited"),
    ("split.100", ["edited", "unedited"], "case 7: split.100: both edited and unedited"),
    ("split.100", None, "case 7: split.100: neither edited nor unedited"),
])  # fmt: skip
def test_invalid_field_is_named(record, stored, path, value, said) -> None:
    assert said in read_error(stored([with_field(record, path, value)]).cases)


@pytest.mark.parametrize(("split", "said"), [
    (None, "CF6334.json, case 7: 6334_split: missing"),
    ({"100": ["edited"]}, "CF6334.json, case 7: 6334_split.100: unknown label 'edited'; expected one of test_edited"),
    ({"100": "train_edited"}, "case 7: split['100']: must be a list, not a text"),
])  # fmt: skip
def test_invalid_split_of_the_nested_layout_is_named(record, stored, nested, split, said) -> None:
    assert said in read_error(stored([nested(record, split)], variant="CF6334").cases)


def test_invalid_field_of_the_nested_layout_is_named(record, stored, nested) -> None:
    wrong = with_field(nested(record), "orig.triples")
    assert read_error(stored([wrong]).cases).endswith(", case 7: orig.triples: missing")


def test_repeated_case_id_is_rejected(record, stored) -> None:
    assert "record 2: case_id: 7 occurs twice" in read_error(stored([record, record]).cases)
