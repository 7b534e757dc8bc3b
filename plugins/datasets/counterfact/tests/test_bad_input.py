"""Errors of invalid files: one line with the place of the problem, and a hint."""

from __future__ import annotations

import pytest

from ke_testing.dataset import build_dataset, check_missing_file, read_error, with_field


def test_missing_file_has_instructions(ke_no_data) -> None:
    place = ke_no_data / "data" / "counterfact" / "counterfact.json"
    check_missing_file(build_dataset("counterfact"), place, "https://rome.baulab.info/data/dsets/counterfact.json")


REWRITE = "requested_rewrite"
TEXTS = ("paraphrase_prompts", "neighborhood_prompts", "attribute_prompts", "generation_prompts")


@pytest.mark.parametrize(("path", "value", "said"), [
    *((name, ..., f"case 0: {name}: missing") for name in (REWRITE, *TEXTS)),
    ("case_id", "0", "record 1: case_id: must be a whole number, not a text"),
    ("neighborhood_prompts.1", " ", "case 0: one of neighborhood_prompts is blank"),
    (f"{REWRITE}.prompt", "its seat", "case 0: requested_rewrite: prompt needs exactly one {}: 'its seat'"),
    (f"{REWRITE}.subject", "", "case 0: requested_rewrite: subject is blank"),
    (f"{REWRITE}.subject", "Q969340", "requested_rewrite: subject is Q969340: no label, only its Wikidata id"),
    (f"{REWRITE}.target_new", "Zarl", "case 0: requested_rewrite.target_new: must be an object, not a text"),
    (f"{REWRITE}.target_new.str", "", "case 0: requested_rewrite.target_new: str is blank"),
    (f"{REWRITE}.target_new.str", "Q9002", "requested_rewrite.target_new: Q9002 has no label, only its Wikidata id"),
    (f"{REWRITE}.target_true.id", None, "case 0: requested_rewrite.target_true.id: must be a text, not null"),
    (f"{REWRITE}.target_true.str", " Zarl", "target_new and target_true are both 'Zarl'"),
    (f"{REWRITE}.target_true.str", "zarl", "target_new and target_true are both 'Zarl'"),
])  # fmt: skip
def test_invalid_field_is_named(record, stored, path, value, said) -> None:
    assert said in read_error(stored([with_field(record, path, value)]).cases)


def test_repeated_case_id_is_rejected(record, stored) -> None:
    assert "record 2: case_id: 0 occurs twice" in read_error(stored([record, record]).cases)
