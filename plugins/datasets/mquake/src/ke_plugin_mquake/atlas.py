"""Relations and phrases of the embedded graph for the builder."""

from __future__ import annotations

from ke_plugin_mquake.wording import RelationPhrases

RELATIONS = ("capital", "capital-of", "country", "continent", "currency", "largest-neighbour")
WORDS = {
    "country": RelationPhrases(
        describe=(
            "the country where {} lies",
            "the country to which the city of {} belongs",
            "the country that is home to the city of {}",
        ),
        ask=("In which country does {} lie?", "To which country does {} belong?", "Which country is {} a part of?"),
    ),
    "capital-of": RelationPhrases(
        describe=(
            "the country whose capital is {}",
            "the country governed from {}",
            "the country that has {} as its capital",
        ),
        ask=(
            "Of which country is {} the capital?",
            "Which country has {} as its capital?",
            "Which country is governed from {}?",
        ),
    ),
    "capital": RelationPhrases(
        describe=("the capital of {}", "the capital city of {}", "the city that is the capital of {}"),
        ask=(
            "Which city is the capital of {}?",
            "What is the capital of {}?",
            "What is the name of the capital of {}?",
        ),
    ),
    "continent": RelationPhrases(
        describe=("the continent of {}", "the continent on which {} lies", "the continent that {} is part of"),
        ask=("On which continent is {}?", "Which continent is home to {}?", "What is the continent of {}?"),
    ),
    "currency": RelationPhrases(
        describe=("the currency of {}", "the money used in {}", "the currency that people pay with in {}"),
        ask=(
            "Which currency is used in {}?",
            "What do people pay with in {}?",
            "What is the name of the currency of {}?",
        ),
    ),
    "largest-neighbour": RelationPhrases(
        describe=(
            "the largest country that borders {}",
            "the biggest neighbour of {}",
            "the largest of the countries that border {}",
        ),
        ask=(
            "Which is the largest country that borders {}?",
            "What is the biggest neighbour of {}?",
            "Of the countries that border {}, which one is the largest?",
        ),
    ),
}
