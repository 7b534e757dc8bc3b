"""Oracle material ``question-entities``: what each question is about, as a line that names its key entity.

PokeMQA's knowledge prompt (Gu et al. 2024) links a question's key entity with ELQ and says in a few words what it is. A
benchmark knows the entity without a linker: a chain's head, which is all that a multi-hop question names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ke_core.data.facts import Entity
from ke_core.data.queries import Case, Query

QUESTION_ENTITIES = "question-entities"
"""The name of the material. Its value: the text of a question to what is said of its key entity."""


def question_entities(cases: Iterable[Case], kind: Callable[[Entity], str] = lambda _entity: "") -> dict[str, str]:
    """Text to "Ada Lovelace, a person.", or "Ada Lovelace." where ``kind`` ("a person") is empty.

    A question that does not name its entity by the label is not there: a linker finds nothing in it either.
    """
    found: dict[str, str] = {}
    for case in cases:
        for query in (query for probe in case.probes for query in probe.queries):
            for text in query.texts:
                entity = _named(text, _about(case, query))
                if entity is not None:
                    found.setdefault(text, ", ".join(filter(None, (entity.label, kind(entity)))) + ".")
    return found


def _about(case: Case, query: Query) -> Iterator[Entity]:
    """What the question may be about: the head where it is of several hops, else any subject of the case."""
    chains = (case.facts_after, case.facts_before)
    if query.hops:
        yield from (facts[0].subject for facts in chains if facts)
        return
    yield from (fact.subject for facts in chains for fact in facts)
    yield from (edit.after.subject for edit in case.edits if edit.after is not None)


def _named(text: str, entities: Iterable[Entity]) -> Entity | None:
    """The one with the longest label that stands in the text: "New York City", not "New York"."""
    return max((entity for entity in entities if entity.label in text), key=lambda one: len(one.label), default=None)
