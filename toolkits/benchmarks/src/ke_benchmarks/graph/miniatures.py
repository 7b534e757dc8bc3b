"""Small benchmarks made from a graph: the same subjects and objects in every process, and texts about a country."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ke_benchmarks.graph.graph import Graph
from ke_benchmarks.probes import sort_key
from ke_core.plugin import Entity

PROFILE = ("continent", "capital", "language", "currency")
"""The relations of a text about a country, in order."""
SENTENCES = {
    "continent": "{country} is a country on the continent of {object}.",
    "capital": "{country} is governed from its capital, {object}.",
    "language": "Laws and schoolbooks of {country} are written in {object}, the official language.",
    "currency": "People in {country} pay for everything with the {object}.",
}

REPHRASED = {
    "capital": "Which city serves as the capital of {}?",
    "currency": "Which currency do people use in {}?",
    "continent": "{} lies on which continent?",
    "country": "The city of {} belongs to which country?",
}
"""Relation to a second wording of its question. Each subject has one object."""


def rephrased(graph: Graph, relation: str, subject: str) -> str:
    """Return the second wording of a question, with the article of the subject."""
    return _capitalized(REPHRASED[relation].format(graph.mention(subject)))


def unrelated_questions(
    graph: Graph, relation: str, subject: str, edited: Mapping[str, Collection[str]], salt: str
) -> list[tuple[str, str]]:
    """Return six questions of the other relations in ``REPHRASED`` about other subjects, with their true answers.

    ``edited``: relation to the subjects whose facts are edited in any case. No question is about such a fact.
    """
    found = []
    for other in (name for name in REPHRASED if name != relation):
        having = (
            node.key
            for node in graph.subjects(other)
            if graph.object(node.key, other) and node.key not in (subject, *edited[other])
        )
        ordered = sorted(having, key=lambda key: sort_key(salt, relation, subject, other, key))
        found += [(graph.question(key, other), graph.objects(key, other)[0].label) for key in ordered[:2]]
    return found


def sampled_subjects(graph: Graph, relation: str, count: int, salt: str) -> list[str]:
    """Return the keys of ``count`` subjects that have one object, in a pseudo-random order that ``salt`` determines."""
    having = [node.key for node in graph.subjects(relation) if graph.object(node.key, relation)]
    return sorted(having, key=lambda subject: sort_key(salt, relation, subject))[:count]


def other_object(graph: Graph, relation: str, subject: str, salt: str) -> Entity:
    """Return an object of the relation that the subject does not have. ``salt`` determines which one."""
    having = (node.key for node in graph.subjects(relation))
    objects = {found.label: found for key in having if (found := graph.object(key, relation))}
    true = graph.object(subject, relation)
    assert true is not None
    names = objects.keys() - {true.label}
    return objects[min(names, key=lambda name: sort_key(salt, relation, subject, name))]


def profiled_countries(graph: Graph, count: int, salt: str) -> list[str]:
    """Return the keys of ``count`` countries with one object of each relation in ``PROFILE``."""
    complete = [
        country.key
        for country in graph.entities("country")
        if all(graph.object(country.key, relation) for relation in PROFILE)
    ]
    return sorted(complete, key=lambda country: sort_key(salt, country))[:count]


def profile(graph: Graph, country: str, changed: Mapping[str, Entity]) -> dict[str, Entity]:
    """Return the objects of the relations in ``PROFILE``: those of ``changed``, and otherwise the true ones."""
    found = {relation: changed.get(relation) or graph.object(country, relation) for relation in PROFILE}
    return {relation: entity for relation, entity in found.items() if entity is not None}


def profile_text(graph: Graph, country: str, objects: Mapping[str, Entity]) -> str:
    """Return a paragraph about a country, one sentence for each relation of ``objects``."""
    name = graph.mention(country)
    sentences = [SENTENCES[relation].format(country=name, object=found.label) for relation, found in objects.items()]
    return " ".join(map(_capitalized, sentences))


def _capitalized(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[0].upper() + sentence[1:]
