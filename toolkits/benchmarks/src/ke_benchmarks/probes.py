"""Build the probes of a single edit, perplexity probes, and material about questions, for any benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from ke_core.plugin import (
    COUNTERFACTUALS_PERPLEXITY,
    EFFICACY,
    FACTS_PERPLEXITY,
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PROBABILITY,
    Case,
    Edit,
    Entity,
    Fact,
    Gold,
    Phase,
    Probe,
    Query,
    SubQuestion,
    continued,
)


def single_edit_probes(
    question: Query, near: Sequence[Query], *, paraphrases: Sequence[Query] = ()
) -> tuple[Probe, ...]:
    """Return all probes of one edit. ``question`` asks for its fact and has a cloze, gold and ``edit``.

    ``paraphrases``: other wordings with the same answers; default: ``question`` itself. ``near``: questions of the same
    relation whose answers the edit must not change, each with its cloze; none of their answers may be the edit's new
    object. A question without a pre-edit answer has no old object for the comparison of probabilities, so it and its
    paraphrases are only answered. Raises ValueError if the edit, a cloze or an answer is missing, or if the answer to a
    question of ``near`` is the new object.
    """
    if question.edit is None or question.cloze is None:
        raise ValueError(f"query {question.id} has no edit or no cloze")
    edits = (question.edit,)
    new = _object(question.gold)
    # without ``edit`` it remains a question, whatever the run's prompt format for edited facts
    asked = tuple(paraphrases) or (evolve(question, id=f"{question.id}-question", edit=None),)
    found = [Probe(id=EFFICACY, aspect=EFFICACY, queries=(question,), edits=edits)]
    told = [
        Probe(id=_numbered(PARAPHRASE, at), aspect=PARAPHRASE, queries=(query,), edits=edits)
        for at, query in enumerate(asked, start=1)
    ]
    if question.pre_edit is None:
        found += told
    else:
        against = (new, _object(question.pre_edit))
        found.append(_scored(EFFICACY, (_between(_as_cloze(question, question.cloze), against),), edits))
        found += told
        found.append(_scored(PARAPHRASE, tuple(_between(query, against) for query in asked), edits))
    clozes = tuple(_as_cloze(query, query.cloze or "") for query in near)
    if clozes:
        rivals = tuple(_between(query, (_unchanged(query, new), new)) for query in clozes)
        found.append(Probe(id=LOCALITY, aspect=LOCALITY, queries=clozes, require="all", phase="both", edits=edits))
        found.append(_scored(LOCALITY, rivals, edits))
    return tuple(found)


def single_edit_cases(cases: Iterable[Case], near: Callable[[Edit, Fact], Sequence[Query]]) -> Iterator[Case]:
    """Yield each distinct edit as a case of its own, in the order of first mention.

    ``near``: returns the questions that the edit, with its new fact, must not change.
    """
    seen: set[str] = set()
    for case in cases:
        edits = {edit.id: edit for edit in case.edits}
        for probe in case.probes:
            if probe.aspect != EFFICACY or probe.edits[0] in seen:
                continue
            edit = edits[probe.edits[0]]
            seen.add(edit.id)
            assert edit.before is not None
            assert edit.after is not None
            yield Case(
                id=edit.id,
                edits=(edit,),
                probes=single_edit_probes(evolve(probe.queries[0], id="edit"), near(edit, edit.after)),
                facts_before=(edit.before,),
                facts_after=(edit.after,),
                tags={"hops": "1", "edits": "1"},
            )


def sort_key(*parts: str) -> str:
    """Return a pseudo-random sort key that depends on the parts only, not on the process."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()


def _numbered(aspect: str, at: int) -> str:
    return aspect if at == 1 else f"{aspect}-{at}"


def _scored(aspect: str, queries: tuple[Query, ...], edits: tuple[str, ...]) -> Probe:
    name = aspect + PROBABILITY
    return Probe(id=name, aspect=name, queries=queries, require="all", edits=edits)


def _between(query: Query, objects: tuple[str, str]) -> Query:
    """Return the same query as a comparison of the probabilities of two objects."""
    continuations = tuple(continued(query.texts[0], name) for name in objects)
    return evolve(query, id=f"{query.id}-scored", continuations=continuations)


def _as_cloze(query: Query, cloze: str) -> Query:
    if not cloze.strip():
        raise ValueError(f"query {query.id} has no cloze")
    return evolve(query, form="cloze", texts=(cloze.rstrip(),), cloze=None)


def _unchanged(query: Query, new: str) -> str:
    """Return the answer to a question about another subject. Raises ValueError if it is the edit's new object."""
    answer = _object(query.gold)
    if answer.strip().casefold() == new.strip().casefold():
        raise ValueError(
            f"query {query.id}: its answer {new!r} is also the edit's new object, so it cannot show whether the edit "
            "changed it. Leave the query out of near, or replace it by a question with another answer"
        )
    return answer


def _object(gold: Gold) -> str:
    if not gold.entities:
        raise ValueError("an answer names no object")
    return gold.entities[0].label


def perplexity_probes(
    facts: Iterable[str], counterfactuals: Iterable[str], *, edits: tuple[str, ...] = ()
) -> tuple[Probe, ...]:
    """Return a probe for each side. Sentences of one word have nothing to score and are omitted; so is an empty side.

    Each query's text is the sentence's first word, as a cloze without demonstrations.
    """
    sides = {FACTS_PERPLEXITY: facts, COUNTERFACTUALS_PERPLEXITY: counterfactuals}
    return tuple(
        Probe(id=aspect, aspect=aspect, queries=queries, require="all", phase="both", edits=edits)
        for aspect, sentences in sides.items()
        if (queries := tuple(_sentence_queries(aspect, sentences)))
    )


def _sentence_queries(aspect: str, sentences: Iterable[str]) -> Iterator[Query]:
    for number, sentence in enumerate(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences), start=1):
        first, _space, rest = sentence.partition(" ")
        if rest:
            yield Query(id=f"{aspect}-{number}", texts=(first,), form="cloze", gold=Gold(), continuations=(f" {rest}",))


def question_entities(cases: Iterable[Case], kind: Callable[[Entity], str] = lambda _entity: "") -> dict[str, str]:
    """Return text to "Ada Lovelace, a person.", or "Ada Lovelace." if ``kind`` ("a person") is empty.

    Questions that do not contain the label of their entity are omitted: an entity linker finds nothing in them either.
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
    """Return the possible entities of a question: the head if it has several hops, or any subject of the case."""
    chains = (case.facts_after, case.facts_before)
    if query.hops:
        yield from (facts[0].subject for facts in chains if facts)
        return
    yield from (fact.subject for facts in chains for fact in facts)
    yield from (edit.after.subject for edit in case.edits if edit.after is not None)


def _named(text: str, entities: Iterable[Entity]) -> Entity | None:
    """Return the entity with the longest label in the text: "New York City", not "New York"."""
    return max((entity for entity in entities if entity.label in text), key=lambda one: len(one.label), default=None)


def sub_questions(cases: Iterable[Case]) -> dict[str, Mapping[Phase, tuple[SubQuestion, ...]]]:
    """Return ``case/query`` to its sub-questions, for queries after editing that are chains of hops.

    ``after``: the hops after the case's edits. An edited hop's tentative answer is the pre-edit answer, any other hop's
    is its gold answer. ``before``: the hops before the edits, for a control, whose edits are withheld. A single-hop
    question is its own only sub-question.

    Omitted: questions whose answer is not that of their last hop (a set operation follows), and questions without a
    pre-edit answer, because their gold answer would reveal the edited world.
    """
    found: dict[str, Mapping[Phase, tuple[SubQuestion, ...]]] = {}
    for case in cases:
        unedited = set(_unedited(case))
        for probe in case.probes:
            for query in probe.queries if probe.asked("after") else ():
                after, before = query.hops or (query,), query.hops_before or query.hops or (query,)
                if after[-1].gold == query.gold and all(hop.pre_edit or hop.id in unedited for hop in after):
                    found[f"{case.id}/{query.id}"] = {"after": tuple(_asked(after)), "before": tuple(_asked(before))}
    return found


def _unedited(case: Case) -> Iterator[str]:
    """Return the ids of queries with one answer in both worlds, or none: unedited hops, locality and fluency.

    Other queries of both phases may lack a pre-edit answer because the data have none.
    """
    for probe in case.probes:
        both = probe.queries if probe.phase == "both" and probe.aspect in (LOCALITY, FLUENCY) else ()
        for single in (*both, *(hop for query in probe.queries for hop in query.hops)):
            if single.edit is None and not single.hops:
                yield single.id


def _asked(hops: Iterable[Query]) -> Iterator[SubQuestion]:
    for hop in hops:
        answer = ", ".join(entity.label for entity in (hop.pre_edit or hop.gold).entities)
        statement = f"{hop.cloze} {answer}" if hop.cloze else answer
        yield SubQuestion(question=hop.texts[0], answer=answer, statement=statement)
