"""What a model is asked while a benchmark is built, and which of its answers count."""

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
def test_the_first_words_decide(answer: str, *, right: bool) -> None:
    assert names_first(answer, PARIS) == right


def test_a_fact_is_known_if_question_or_cloze_is_answered() -> None:
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
def test_a_rewriting_is_a_question_with_the_same_names(new: str, *, good: bool) -> None:
    assert sound("What is the capital of France?", new) == good


def test_a_question_that_is_not_rewritten_well_stays_and_is_counted() -> None:
    kept: list[int] = []
    model = ScriptedModel([" Which city is the capital of France?", " Paris!"])
    phrase = phrase_with(BatchingEngine(model), lambda: kept.append(1))
    texts = ("What is the capital of France?", "What is the capital of Peru?")
    assert phrase(texts) == ["Which city is the capital of France?", "What is the capital of Peru?"]
    assert kept == [1]


def test_a_rewriting_that_loses_a_word_may_have_lost_a_hop() -> None:
    old = "Can you name the capital of the largest neighbor of Kenya?"
    assert sound(old, "Of the largest neighbor of Kenya, what is the capital?")
    assert not sound(old, "Which country is the largest neighbor of Kenya?")
