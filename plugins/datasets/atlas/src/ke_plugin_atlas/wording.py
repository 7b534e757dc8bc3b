"""Three wordings of each multi-hop question: the last relation is the question, the others describe its subject."""

from __future__ import annotations

from ke_benchmarks.graph import Graph
from ke_plugin_atlas.world import CAPITAL, CAPITAL_OF, CONTINENT, COUNTRY, CURRENCY, LANGUAGE, NEIGHBOUR

WORDINGS = 3
DESCRIBE = {
    COUNTRY: (
        "the country where {} lies",
        "the country in which the city of {} is located",
        "the country to which the city of {} belongs",
    ),
    CAPITAL_OF: (
        "the country whose capital is {}",
        "the country that has {} as its capital",
        "the country that is governed from {}",
    ),
    NEIGHBOUR: (
        "the largest country that borders {}",
        "the largest neighbour of {}",
        "the biggest country that shares a border with {}",
    ),
}
ASK = {
    CAPITAL: (
        "What is the capital of {}?",
        "Which city is the capital of {}?",
        "What is the name of the capital of {}?",
    ),
    CONTINENT: ("On which continent is {}?", "Which continent is home to {}?", "What is the continent of {}?"),
    CURRENCY: (
        "What is the currency of {}?",
        "Which currency is used in {}?",
        "With which currency do people pay in {}?",
    ),
    LANGUAGE: (
        "What is the official language of {}?",
        "Which language is official in {}?",
        "Which language has official status in {}?",
    ),
}


def wordings(graph: Graph, head: str, relations: tuple[str, ...]) -> tuple[str, ...]:
    """Return the question of a chain that starts at ``head`` in three wordings. It names the head and nothing else."""
    return tuple(_question(graph.mention(head), relations, number) for number in range(WORDINGS))


def _question(mention: str, relations: tuple[str, ...], number: int) -> str:
    *way, last = relations
    for relation in way:
        mention = DESCRIBE[relation][number].replace("{}", mention)
    return ASK[last][number].replace("{}", mention)
