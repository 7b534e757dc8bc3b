"""Parsing of labels and lists, and filling of prompts."""

import pytest

from ke_benchmarks import CONSISTENT, INCONSISTENT, NOT_SUPPORT, SUPPORT, UNRELATED, paragraph, sentences, thoughts_of
from ke_core.plugin import Answer
from ke_plugin_llm.asking import filled, parse_label
from ke_plugin_llm.judge import listed

FACTS, SUPPORTS = (CONSISTENT, INCONSISTENT, UNRELATED), (SUPPORT, NOT_SUPPORT)


@pytest.mark.parametrize(
    ("written", "label"),
    [
        (" Both say so.\nLabel: consistent", "consistent"),
        ("Label: Inconsistent.", "inconsistent"),
        ("**Label:** `unrelated`", "unrelated"),
        ("Label: consistent\nNo, wait.\nLabel: inconsistent", "inconsistent"),
        ("It is consistent with the paragraph.", ""),
        ("Label: partly consistent", ""),
        ("Label: consistent or inconsistent", ""),
        ("Label: support", ""),
        ("Label:", ""),
        ("", ""),
    ],
)
def test_valid_label_after_the_marker(written, label):
    assert parse_label(written, FACTS) == label


@pytest.mark.parametrize("written", ["Label: not support", "Label: not-support", "label: NOT_SUPPORT"])
def test_not_support_is_not_parsed_as_support(written):
    assert parse_label(written, SUPPORTS) == NOT_SUPPORT


def test_placeholders_are_filled_once_with_one_line_values():
    text = filled("A: {thoughts}\nB: {answer}\nC: {other}", thoughts="see {answer}\nLabel: support", answer="x")
    assert text == "A: see {answer} Label: support\nB: x\nC: {other}"


@pytest.mark.parametrize(
    ("written", "cut", "found"),
    [
        ("- One.\n- Two.", False, ("One.", "Two.")),
        ("\n1. One.\n2) Two.\n", False, ("One.", "Two.")),
        ("- One.\n- One.", False, ("One.",)),
        ("- One.\n\n- Two.", False, ("One.", "Two.")),
        ("- One.\n- Tw", True, ("One.",)),
        ("- One.\n\nText: more\n- Three.", False, ("One.",)),
        ("Here you are: one, two.", False, ()),
        ("", False, ()),
    ],
)
def test_facts_are_the_items_of_the_list(written, cut, found):
    assert listed(written, cut=cut) == found


@pytest.mark.parametrize(
    ("raw", "text", "outcome", "thoughts"),
    [
        (" Thoughts: A is 3.\nB is 4.\nAnswer: 7", "7", "answered", "A is 3.\nB is 4."),
        ("A is 3. So the answer is: 3", "3", "answered", "A is 3."),
        ("A is 3. The final answer is **3**", "3", "answered", "A is 3."),
        ("Rome", "Rome", "answered", ""),
        ("The answer is Rome.", "Rome", "answered", ""),
        ("A is 3. B is 2.\nAnswer: 5\nThe number 5 is right.", "5", "answered", "A is 3. B is 2."),
        ("Answer: 4? No. A is 3.\nSo the answer is 4. It is 4.", "4", "answered", "Answer: 4? No. A is 3."),
        ("A is 3, so it is 3, I think", "3", "answered", "A is 3, so it is"),
        ("It is so.", "gone", "answered", ""),
        ("A is 3 and then", "", "length", "A is 3 and then"),
        ("", "", "unparsed", ""),
    ],
)
def test_thoughts_are_the_text_before_the_answer(raw, text, outcome, thoughts):
    assert thoughts_of(Answer(raw=raw, text=text, outcome=outcome)) == thoughts


def test_sentences_end_at_periods_except_in_numbers():
    assert sentences("It is 3.5 km. It is old. It is old.\nGood") == ("It is 3.5 km.", "It is old.", "Good")


def test_each_sentence_of_a_paragraph_has_a_final_mark():
    assert paragraph(("A is in B", "Is C?", "D is in E.")) == "A is in B. Is C? D is in E."


def test_sentences_do_not_end_at_initials_and_titles():
    said = ("J. R. R. Tolkien wrote it.", "Dr. Smith was born in St. Louis.", "He is old.")
    assert sentences(" ".join(said)) == said
