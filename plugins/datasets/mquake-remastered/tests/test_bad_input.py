"""A file that is not what it should be: one line that says where, and one that says what to do."""

from __future__ import annotations

import json

import pytest

from ke_core.app import configure, discover, read_catalog
from ke_core.plugin import BadData


def refused(dataset) -> str:
    with pytest.raises(BadData) as caught:
        list(dataset.cases())
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(".")
    assert caught.value.hint
    return str(caught.value)


def test_an_absent_file_is_said_where_to_get_and_to_put(tmp_path) -> None:
    spec = read_catalog(discover()).spec("dataset", "mquake-remastered-cf9k")
    with pytest.raises(BadData, match=r"CF9k\.json of mquake-remastered is missing") as caught:
        list(spec.build(configure(spec, {})).cases())
    assert "huggingface.co/datasets/henryzhongsc/MQuAKE-Remastered" in caught.value.hint
    assert str(tmp_path / "cache" / "data" / "mquake-remastered" / "CF9k.json") in caught.value.hint


@pytest.mark.parametrize(("content", "said"), [
    (b"", "is empty"), (b"<html>]", "is not JSON"), (b'["\xff"]', "is not JSON"), (b"[]", "contains no case"),
    (b"3", "contains a whole number, not a list of cases"), (b"[[]]", "record 1: must be an object, not a list"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(stored, content, said) -> None:
    assert said in refused(stored(content))


@pytest.mark.parametrize("whole", [lambda r: json.dumps([r]), json.dumps])
def test_truncated_file_is_told(record, stored, whole) -> None:
    content = whole(record).encode()
    assert "is cut off (column" in refused(stored(content[: len(content) // 2]))


@pytest.mark.parametrize("name", [
    "requested_rewrite", "questions", "answer", "answer_alias", "new_answer", "new_answer_alias", "single_hops",
    "new_single_hops", "orig_triples", "orig_triples_labeled", "new_triples", "new_triples_labeled", "split",
])  # fmt: skip
def test_a_missing_field_is_named_with_its_case(record, stored, name) -> None:
    del record[name]
    assert refused(stored([record])).endswith(f", case 7: {name}: missing")


REWRITE = "requested_rewrite"


@pytest.mark.parametrize(("path", "value", "said"), [
    (["case_id"], "7", "record 1: case_id: must be a whole number, not a text"),
    (["answer"], "", "case 7: answer is blank"),
    (["new_answer"], None, "case 7: new_answer: must be a text, not null"),
    (["questions"], [], "case 7: Length of 'questions' must be >= 1: 0"),
    (["orig_triples", 0], ["Q1", "P27"], "case 7: orig_triples[0]: must be a list of 3 texts"),
    (["new_triples"], [["Q17", "P27", "Q3"]],
     "case 7: new_single_hops has 2 items, orig.new_triples 1, orig.new_triples_labeled 2"),
    ([REWRITE, 0, "prompt"], "citizen of", "case 7: requested_rewrite[0]: prompt needs exactly one {}: 'citizen of'"),
    ([REWRITE, 0, "target_new_str"], "Cland", "case 7: requested_rewrite[0] is not a hop of new_triples_labeled"),
    ([REWRITE, 0, "target_new_str"], "", "case 7: requested_rewrite[0]: target_new_str is blank"),
    (["split"], [], "case 7: split: must be an object, not a list"),
    (["split", "100"], ["train"], "case 7: split.100: unknown label 'train'; expected one of edited, unedited"),
    (["split", "100"], ["edited", "unedited"], "case 7: split.100: both edited and unedited"),
    (["split", "100"], None, "case 7: split.100: neither edited nor unedited"),
])  # fmt: skip
def test_a_wrong_field_is_named_with_what_it_should_be(record, stored, path, value, said) -> None:
    *way, last = path
    at = record
    for key in way:
        at = at[key]
    at[last] = value
    assert said in refused(stored([record]))


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (None, "CF6334.json, case 7: 6334_split: missing"),
        (
            {"100": ["edited"]},
            "CF6334.json, case 7: 6334_split.100: unknown label 'edited'; expected one of test_edited",
        ),
        ({"100": "train_edited"}, "case 7: split['100']: must be a list, not a text"),
    ],
)
def test_a_wrong_split_of_the_repositorys_file_is_refused(record, stored, nested, split, said) -> None:
    assert said in refused(stored([nested(record, split)], variant="CF6334"))


def test_a_wrong_field_of_the_repositorys_layout_is_named(record, stored, nested) -> None:
    wrong = nested(record)
    del wrong["orig"]["triples"]
    assert refused(stored([wrong])).endswith(", case 7: orig.triples: missing")


def test_the_word_unedited_is_not_taken_for_a_list_that_holds_edited(record, stored) -> None:
    record["split"]["100"] = "unedited"
    assert "must be a list, not a text" in refused(stored([record]))


def test_a_case_id_that_occurs_twice_is_refused(record, stored) -> None:
    assert "record 2: case_id: 7 occurs twice" in refused(stored([record, record]))


def test_x7_a_bare_id_is_no_label(record, stored) -> None:
    text = json.dumps([record])
    labeled = text.replace('"Aland", "capital"', '"Q2", "capital"')
    assert "Q2 has no label in orig.triples_labeled, only its Wikidata id" in refused(stored(labeled.encode()))
    record[REWRITE][0]["target_true_str"] = "Q969340"
    assert "target_true_str is Q969340: no label, only its Wikidata id" in refused(stored([record]))
