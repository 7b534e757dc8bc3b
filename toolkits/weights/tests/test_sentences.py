"""A sentence is split into a prompt and an object."""

from __future__ import annotations

import pytest

from ke_core.plugin import BadData
from ke_weights.sentences import edit_from_sentence


@pytest.mark.parametrize(
    ("sentence", "subject", "object_", "prompt", "target"),
    [("The mother tongue of Danielle Darrieux is English", "Danielle Darrieux", "",
      "The mother tongue of Danielle Darrieux is", "English"),
     ("Peru belongs to the United Kingdom.", "Peru", "", "Peru belongs to the", "United Kingdom"),
     ("Steve Jobs Tim Cook", "Steve Jobs", "", "Steve Jobs", "Tim Cook"),
     ("Ann plays the violin", "Ann", "", "Ann plays the", "violin"),
     ("Apple was founded by Ada King of Lovelace", "Apple", "Ada King of Lovelace", "Apple was founded by",
      "Ada King of Lovelace"),
     ("Apple was founded by => Ada King of Lovelace", "Apple", "", "Apple was founded by", "Ada King of Lovelace"),
     ("Its capital is Lima.", "Its", "Lima", "Its capital is", "Lima"),
     ("Its capital is Washington D.C.", "Its", "Washington D.C.", "Its capital is", "Washington D.C."),
     ("Its capital is => Washington D.C.", "Its", "", "Its capital is", "Washington D.C.")],
)  # fmt: skip
def test_a_sentence_is_split_before_its_object(sentence, subject, object_, prompt, target):
    found = edit_from_sentence(sentence, subject, object_)
    assert (found.prompt, found.target) == (prompt, target)
    assert found.source == "the command line"


@pytest.mark.parametrize(
    ("sentence", "subject", "object_", "words"),
    [("The capital of Peru", "Peru", "", "nothing follows the subject"),
     ("The capital of Peru is", "Peru", "", "has no new object after 'is'"),
     ("The capital of Peru is Lima", "Chile", "", "does not contain its subject"),
     ("The capital of Peru is Lima", "Peru", "La Paz", "does not end with its object"),
     ("The capital of Peru is => Lima", "Peru", "La Paz", "in --object"),
     ("The capital of Peru is =>", "Peru", "", "target_new is missing")],
)  # fmt: skip
def test_a_sentence_that_cannot_be_split_is_refused(sentence, subject, object_, words):
    with pytest.raises(BadData, match=words):
        edit_from_sentence(sentence, subject, object_)
