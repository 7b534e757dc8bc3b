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
    assert "zsre_mend_eval.json" in str(caught.value) + caught.value.hint
    return str(caught.value)


def test_an_absent_file_is_said_where_to_get_and_to_put(tmp_path) -> None:
    spec = read_catalog(discover()).spec("dataset", "zsre")
    with pytest.raises(BadData, match=r"zsre_mend_eval\.json of zsre is missing") as caught:
        list(spec.build(configure(spec, {})).cases())
    assert "https://rome.baulab.info/data/dsets/zsre_mend_eval.json" in caught.value.hint
    assert str(tmp_path / "cache" / "data" / "zsre" / "zsre_mend_eval.json") in caught.value.hint


@pytest.mark.parametrize(("content", "said"), [
    (b"", "is empty"), (b"<html>]", "is not JSON"), (b'["\xff"]', "is not JSON"), (b"[]", "contains no case"),
    (b"{}", "contains an object, not a list of cases"), (b"[null]", "record 1: must be an object, not null"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(stored, content, said) -> None:
    assert said in refused(stored(content))


def test_truncated_file_is_told(record, stored) -> None:
    whole = json.dumps([record]).encode()
    assert "is cut off (column" in refused(stored(whole[: len(whole) // 2]))


@pytest.mark.parametrize("name", ["subject", "src", "rephrase", "alt", "answers", "loc", "loc_ans"])
def test_a_missing_field_is_named_with_its_record(record, stored, name) -> None:
    del record[name]
    assert refused(stored([record])).endswith(f", record 1: {name}: missing")


@pytest.mark.parametrize(("name", "value", "said"), [
    ("src", 3, "record 1: src: must be a text, not a whole number"),
    ("src", " ", "record 1: src is blank"),
    ("answers", "Tobin Crane", "record 1: answers: must be a list, not a text"),
    ("answers", [], "record 1: answers is empty"),
    ("answers", ["A", ""], "record 1: one of answers is blank"),
    ("answers", ["A", None], "record 1: answers[1]: must be a text, not null"),
    ("loc_ans", ["eleven"], "record 1: loc_ans: must be a text, not a list"),
    ("alt", None, "record 1: alt: must be a text, not null"),
])  # fmt: skip
def test_a_wrong_field_is_named_with_what_it_should_be(record, stored, name, value, said) -> None:
    assert said in refused(stored([record | {name: value}]))


@pytest.mark.parametrize(("name", "value"), [("subject", "Q969340"), ("alt", "Q969340"), ("answers", ["A", "Q969340"])])
def test_x7_a_bare_id_is_no_label(record, stored, name, value) -> None:
    said = f"record 1: {name} is Q969340: no label, only its Wikidata id"
    assert said in refused(stored([record | {name: value}]))


def test_x7_things_that_are_called_like_a_short_id_have_a_label(record, stored) -> None:
    assert list(stored([record | {"subject": "Q400"}]).cases())
