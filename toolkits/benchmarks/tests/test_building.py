"""Recall checks and question rewriting during a build."""

from __future__ import annotations

import pytest

from ke_benchmarks.building import names_first, phrase_with, recall_with, sound
from ke_benchmarks.graph import RecallProbe
from ke_core.app import BatchingEngine
from ke_core.plugin import Entity, Gold
from ke_testing.fakes import ScriptedModel

PARIS = Gold(entities=(Entity(label="Paris", aliases=("City of Light",)),), require="any")
ASKED = RecallProbe(question="What is the capital of France?", cloze="The capital of France is", gold=PARIS)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (" Paris", True),
        ("It is PARIS, of course", True),
        ("the City of Light", True),
        ("Parisian streets", False),
        ("a city that many people know and that is Paris", False),
        ("", False),
    ],
)
def test_only_the_first_words_of_an_answer_count(answer: str, *, right: bool) -> None:
    assert names_first(answer, PARIS) == right


def test_fact_is_recalled_if_question_or_cloze_is_answered() -> None:
    model = ScriptedModel(lambda prompt: " Paris." if prompt.startswith("The capital") else " I do not know")
    other = RecallProbe(
        question="What is the capital of Peru?", cloze="Of Peru", gold=Gold(entities=(Entity(label="Lima"),))
    )
    assert recall_with(BatchingEngine(model))([ASKED, other]) == [True, False]
    assert all("Paris" not in prompt for prompt in model.prompts)


@pytest.mark.parametrize(
    ("new", "good"),
    [
        ("Which city is France's capital?", False),
        ("Of France, which city is the capital?", True),
        ("Which city is the capital of France?", True),
        ("Which city is the capital of Spain?", False),
        ("The capital of France is Paris.", False),
        ("", False),
    ],
)
def test_rewrite_must_be_a_question_with_the_same_names(new: str, *, good: bool) -> None:
    assert sound("What is the capital of France?", new) == good


def test_unusable_rewrite_is_discarded_and_counted() -> None:
    kept: list[int] = []
    model = ScriptedModel([" Which city is the capital of France?", " Paris!"])
    phrase = phrase_with(BatchingEngine(model), lambda: kept.append(1))
    texts = ("What is the capital of France?", "What is the capital of Peru?")
    assert phrase(texts) == ["Which city is the capital of France?", "What is the capital of Peru?"]
    assert kept == [1]


def test_rewrite_that_loses_a_word_is_unusable() -> None:
    old = "Can you name the capital of the largest neighbor of Kenya?"
    assert sound(old, "Of the largest neighbor of Kenya, what is the capital?")
    assert not sound(old, "Which country is the largest neighbor of Kenya?")
