"""What is asked of a single edit, whichever the benchmark: the probes that classic metrics know by their aspects.

======================= ====== =========================================================================
aspect                  phase  queries
======================= ====== =========================================================================
efficacy                after  the edit's own fact, in the form in which the run asks for edited facts
efficacy-probability    after  its cloze: how probable is the new object, how probable the old one
paraphrase              after  the same fact in another wording: as a question, or the benchmark's own, one probe each
paraphrase-probability  after  these wordings, as they are asked: new object against old one
locality                both   clozes of the same relation about other subjects, answered as before
locality-probability    after  these clozes: their own object against the edit's new one
======================= ====== =========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ke_core.data.queries import EFFICACY, Gold, Probe, Query

PARAPHRASE, LOCALITY = "paraphrase", "locality"
PORTABILITY, FLUENCY = "portability", "fluency"
"""Questions that follow from the edit (answered after); openings about its subject that are continued (both phases)."""
PROBABILITY = "-probability"
SINGLE_ASPECTS = tuple(name + how for name in (EFFICACY, PARAPHRASE, LOCALITY) for how in ("", PROBABILITY))


def single_edit_probes(
    question: Query, near: Sequence[Query], *, paraphrases: Sequence[Query] = ()
) -> tuple[Probe, ...]:
    """Every probe of one edit. ``question`` asks for its fact and has a cloze, gold and ``edit``.

    ``paraphrases`` are other wordings of it, with the same answers, as they are to be asked; without any, it is
    ``question`` itself. ``near`` are questions of the same relation whose answers the edit must leave alone, each with
    its cloze; none of their answers may be the edit's new object. A question without a stale answer has no old object
    to compare its new one with, so it and its paraphrases are only answered. Raises ValueError where the edit, a cloze
    or an answer is missing.
    """
    if question.edit is None or question.cloze is None:
        raise ValueError(f"query {question.id} has no edit or no cloze")
    edits = (question.edit,)
    new = _object(question.gold)
    # without ``edit`` it stays the question that it is, whatever the form in which the run asks for edited facts
    asked = tuple(paraphrases) or (evolve(question, id=f"{question.id}-question", edit=None),)
    found = [Probe(id=EFFICACY, aspect=EFFICACY, queries=(question,), edits=edits)]
    told = [
        Probe(id=_numbered(PARAPHRASE, at), aspect=PARAPHRASE, queries=(query,), edits=edits)
        for at, query in enumerate(asked, start=1)
    ]
    if question.stale is None:
        found += told
    else:
        against = (new, _object(question.stale))
        found.append(_scored(EFFICACY, (_between(_as_cloze(question, question.cloze), against),), edits))
        found += told
        found.append(_scored(PARAPHRASE, tuple(_between(query, against) for query in asked), edits))
    clozes = tuple(_as_cloze(query, query.cloze or "") for query in near)
    if clozes:
        rivals = tuple(_between(query, (_object(query.gold), new)) for query in clozes)
        found.append(Probe(id=LOCALITY, aspect=LOCALITY, queries=clozes, require="all", phase="both", edits=edits))
        found.append(_scored(LOCALITY, rivals, edits))
    return tuple(found)


def _numbered(aspect: str, at: int) -> str:
    return aspect if at == 1 else f"{aspect}-{at}"


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
