"""Errors of invalid files: one line with the place of the problem, and a hint."""

from __future__ import annotations

import pytest

from ke_testing.dataset import build_dataset, check_missing_file, read_error, with_field


def test_missing_file_has_instructions(ke_no_data) -> None:
    place = ke_no_data / "data" / "zsre" / "zsre_mend_eval.json"
    check_missing_file(build_dataset("zsre"), place, "https://rome.baulab.info/data/dsets/zsre_mend_eval.json")


NO_LABEL = "is Q969340: no label, only its Wikidata id"


@pytest.mark.parametrize(("name", "value", "said"), [
    *((name, ..., f"{name}: missing") for name in ("subject", "src", "rephrase", "alt", "answers", "loc", "loc_ans")),
    ("src", 3, "src: must be a text, not a whole number"),
    ("src", " ", "src is blank"),
    ("answers", [], "answers is empty"),
    ("answers", ["A", ""], "one of answers is blank"),
    ("answers", ["A", None], "answers[1]: must be a text, not null"),
    ("loc_ans", ["eleven"], "loc_ans: must be a text, not a list"),
    ("alt", None, "alt: must be a text, not null"),
    ("subject", "Q969340", f"subject {NO_LABEL}"),
    ("alt", "Q969340", f"alt {NO_LABEL}"),
    ("answers", ["A", "Q969340"], f"answers {NO_LABEL}"),
])  # fmt: skip
def test_invalid_field_is_named(record, stored, name, value, said) -> None:
    assert f"record 1: {said}" in read_error(stored([with_field(record, name, value)]).cases)


def test_short_name_like_an_id_is_a_label(record, stored) -> None:
    assert list(stored([record | {"subject": "Q400"}]).cases())
