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
    assert "counterfact.json" in str(caught.value) + caught.value.hint
    return str(caught.value)


def test_an_absent_file_is_said_where_to_get_and_to_put(tmp_path) -> None:
    spec = read_catalog(discover()).spec("dataset", "counterfact")
    with pytest.raises(BadData, match=r"counterfact\.json of counterfact is missing") as caught:
        list(spec.build(configure(spec, {})).cases())
    assert "https://rome.baulab.info/data/dsets/counterfact.json" in caught.value.hint
    assert str(tmp_path / "cache" / "data" / "counterfact" / "counterfact.json") in caught.value.hint


@pytest.mark.parametrize(("content", "said"), [
    (b"", "is empty"), (b"<html>]", "is not JSON"), (b'["\xff"]', "is not JSON"), (b"[]", "contains no case"),
    (b"{}", "contains an object, not a list of cases"), (b"[3]", "record 1: must be an object, not a whole number"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(stored, content, said) -> None:
    assert said in refused(stored(content))


def test_truncated_file_is_told(record, stored) -> None:
    whole = json.dumps([record]).encode()
    assert "is cut off (column" in refused(stored(whole[: len(whole) // 2]))


@pytest.mark.parametrize("name", [
    "requested_rewrite", "paraphrase_prompts", "neighborhood_prompts", "attribute_prompts", "generation_prompts",
])  # fmt: skip
def test_a_missing_field_is_named_with_its_case(record, stored, name) -> None:
    del record[name]
    assert refused(stored([record])).endswith(f", case 0: {name}: missing")


REWRITE = "requested_rewrite"


@pytest.mark.parametrize(("path", "value", "said"), [
    (["case_id"], "0", "record 1: case_id: must be a whole number, not a text"),
    (["paraphrase_prompts"], "one", "case 0: paraphrase_prompts: must be a list, not a text"),
    (["neighborhood_prompts", 1], 3, "case 0: neighborhood_prompts[1]: must be a text, not a whole number"),
    (["neighborhood_prompts", 1], " ", "case 0: one of neighborhood_prompts is blank"),
    ([REWRITE, "prompt"], "its seat", "case 0: requested_rewrite: prompt needs exactly one {}: 'its seat'"),
    ([REWRITE, "subject"], "", "case 0: requested_rewrite: subject is blank"),
    ([REWRITE, "target_new"], "Zarl", "case 0: requested_rewrite.target_new: must be an object, not a text"),
    ([REWRITE, "target_new", "str"], "", "case 0: requested_rewrite.target_new: str is blank"),
    ([REWRITE, "target_true", "id"], None, "case 0: requested_rewrite.target_true.id: must be a text, not null"),
    ([REWRITE, "target_true", "str"], " Zarl", "target_new and target_true are both 'Zarl'"),
])  # fmt: skip
def test_a_wrong_field_is_named_with_what_it_should_be(record, stored, path, value, said) -> None:
    *way, last = path
    at = record
    for key in way:
        at = at[key]
    at[last] = value
    assert said in refused(stored([record]))


def test_a_case_id_that_occurs_twice_is_refused(record, stored) -> None:
    assert "record 2: case_id: 0 occurs twice" in refused(stored([record, record]))


def test_x7_a_bare_id_is_no_label(record, stored) -> None:
    record[REWRITE]["target_new"] = {"str": "Q9002", "id": "Q9002"}
    assert "requested_rewrite.target_new: Q9002 has no label, only its Wikidata id" in refused(stored([record]))
    record[REWRITE] |= {"target_new": {"str": "Zarl", "id": "Q9002"}, "subject": "Q969340"}
    assert "requested_rewrite: subject is Q969340: no label, only its Wikidata id" in refused(stored([record]))
