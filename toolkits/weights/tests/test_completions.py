"""When a completion counts as the expected answer."""

from __future__ import annotations

import pytest

from ke_weights.completions import Completion


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Rome, Italy", "Rome"),
        ("rome", "Rome"),
        ("\u201cRome\u201d", "Rome"),
        ("(Rome)", "Rome"),
        ("\u300c\u6771\u4eac\u300d", "\u6771\u4eac"),
        ("\u6771\u4eac\u3067\u3059\u3002", "\u6771\u4eac"),
        ("Rome\u3067\u3059", "Rome"),
    ],
)
def test_answer_is_found_at_the_start_up_to_a_word_end(text: str, name: str) -> None:
    assert Completion(text=text).begins_with([name])


@pytest.mark.parametrize(("text", "name"), [("Romeo", "Rome"), ("In Rome", "Rome"), ("-5", "5"), ("", "Rome")])
def test_other_text_is_no_answer(text: str, name: str) -> None:
    assert not Completion(text=text).begins_with([name])
