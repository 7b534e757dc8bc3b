"""Words, and names found among them."""

from __future__ import annotations

import pytest

from ke_core.plugin import holds, words


@pytest.mark.parametrize(
    ("text", "name", "there"),
    [
        ("in Rome.", "rome", True),
        ("Rome\u2019s centre", "Rome", True),
        ("Romeo", "Rome", False),
        ("Guinea-Bissau", "Guinea", False),
        ("New  York City", "new york", True),
        ("York, New", "New York", False),
        ("\uff32ome", "Rome", True),
        ("anything", "!", False),
        ("anything", "", False),
        ("首都是北京。", "北京", True),
        ("東京です", "東京", True),
        ("กรุงเทพคือเมือง", "กรุงเทพ", True),
        ("京都", "京", False),
        ("1,500 people", "500", False),
        ("3.5", "5", False),
        ("-5 degrees", "5", False),
        ("5, 6 and 7.", "7", True),
        ("a 500-page book", "500", False),
    ],
)
def test_v4_names_are_found_word_for_word(text, name, there) -> None:
    assert holds(text, [name]) is there


def test_words_are_without_case_and_punctuation() -> None:
    assert words("I don't know, \u201cMr. O'Neill\u201d!") == ("i", "don't", "know", "mr", "o'neill")
