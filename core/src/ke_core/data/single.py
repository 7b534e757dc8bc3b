"""What is asked of a single edit, whichever the benchmark: the probes that classic metrics know by their aspects.

======================= ====== =========================================================================
aspect                  phase  queries
======================= ====== =========================================================================
efficacy                after  the edit's own fact, in the form in which the run asks for edited facts
efficacy-probability    after  its cloze: how probable is the new object, how probable the old one
paraphrase              after  the same fact as a question
paraphrase-probability  after  that question with its answer prompt: new object against old one
locality                both   clozes of the same relation about other subjects, answered as before
locality-probability    after  these clozes: their own object against the edit's new one
======================= ====== =========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ke_core.data.queries import EFFICACY, Gold, Probe, Query

PARAPHRASE, LOCALITY = "paraphrase", "locality"
PROBABILITY = "-probability"
SINGLE_ASPECTS = tuple(name + how for name in (EFFICACY, PARAPHRASE, LOCALITY) for how in ("", PROBABILITY))


def single_edit_probes(question: Query, near: Sequence[Query]) -> tuple[Probe, ...]:
    """Every probe of one edit. ``question`` asks for its fact and has a cloze, gold and stale answers and ``edit``.

    ``near`` are questions of the same relation whose answers the edit must leave alone, each with its cloze; none of
    their answers may be the edit's new object. Raises ValueError where a cloze or an answer is missing.
    """
    if question.edit is None or question.cloze is None or question.stale is None:
        raise ValueError(f"query {question.id} has no edit, no cloze or no stale answer")
    edits = (question.edit,)
    against = (_object(question.gold), _object(question.stale))
    stated = _as_cloze(question, question.cloze)
    asked = evolve(question, id=f"{question.id}-question", edit=None)  # stays a question: it is the paraphrase
    found = [
        Probe(id=EFFICACY, aspect=EFFICACY, queries=(question,), edits=edits),
        _scored(EFFICACY, (_between(stated, against),), edits),
        Probe(id=PARAPHRASE, aspect=PARAPHRASE, queries=(asked,), edits=edits),
        _scored(PARAPHRASE, (_between(asked, against),), edits),
    ]
    clozes = tuple(_as_cloze(query, query.cloze or "") for query in near)
    if clozes:
        rivals = tuple(_between(query, (_object(query.gold), against[0])) for query in clozes)
        found.append(Probe(id=LOCALITY, aspect=LOCALITY, queries=clozes, require="all", phase="both", edits=edits))
        found.append(_scored(LOCALITY, rivals, edits))
    return tuple(found)


def _scored(aspect: str, queries: tuple[Query, ...], edits: tuple[str, ...]) -> Probe:
    name = aspect + PROBABILITY
    return Probe(id=name, aspect=name, queries=queries, require="all", edits=edits)


def _between(query: Query, objects: tuple[str, str]) -> Query:
    """The same query, asked how probable each of two objects is. Each begins with one space (E1)."""
    return evolve(query, id=f"{query.id}-scored", continuations=tuple(f" {name.strip()}" for name in objects))


def _as_cloze(query: Query, cloze: str) -> Query:
    if not cloze.strip():
        raise ValueError(f"query {query.id} has no cloze")
    return evolve(query, form="cloze", texts=(cloze.rstrip(),), cloze=None)


def _object(gold: Gold) -> str:
    if not gold.entities:
        raise ValueError("an answer names no object")
    return gold.entities[0].label
