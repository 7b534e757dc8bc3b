"""Facts found by a method that retrieves, and whether it used them (MQuAKE, appendix: retrieval accuracy).

===================== ===========================================================================================
aspect                value, for one case unless stated otherwise
===================== ===========================================================================================
edit-retrieval        for each edit: 1 if it is the first fact retrieved for its own question
retrieval             1 if, for some wording of the question, every edit of the case was retrieved (Table 14)
right-if-retrieved    of the cases where that is 1: 1 if some wording is answered correctly
hops-answered         for each wording: the fraction of its hops whose answer some step reached
used-if-retrieved     for each hop of a wording whose edit some step retrieved: 1 if that step reached its object
===================== ===========================================================================================

All but the first are for questions that depend on several facts: multi-hop (MQuAKE), complex (CompKE) and reasoning
(ReCoE). They exist only for cases in which some answer has steps, so the method retrieves. There, a question without
any retrieval, or a failed one, counts as 0. Controls have no edits to retrieve.

The last two exist if steps are sub-questions. Judges do not see steps, so their answers are compared here with the
hop's gold names, ignoring case and a full stop at the end; for a hop with several answers all are required (CompKE).
One step may answer several hops of one relation, as CompKE's demonstrations do ("Ada Reed in Moscow, Grace Hopper in
New York"): then only the part about the hop's own subject is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from attrs import evolve

from ke_core.plugin import EFFICACY, Answer, CaseRecord, Query, Step, Value
from ke_plugin_multi_hop.observed import MULTI_HOP, ObservedProbe, asked

QUESTIONS = (MULTI_HOP, "complex", "reasoning")
SUBQUESTION = "subquestion"
NOT_ALL = "not every edit of the case was retrieved"
NOT_FOUND = "the edit of the hop was not retrieved"


class Retrieval:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case."""
        steps = list(_steps(record))
        if not record.edited or not (steps or record.skipped):
            return
        by_hops = any(step.kind == SUBQUESTION for step in steps)
        for one in asked(record, (EFFICACY, *QUESTIONS)):
            if one.phase == "after":
                yield from _retrieved(one, [edit.id for edit in record.case.edits])
                if by_hops and one.probe.aspect in QUESTIONS:
                    yield from _hops(one)


def _steps(record: CaseRecord) -> Iterator[Step]:
    """Return every step of the edited model's answers, including answers that failed before the first retrieval."""
    for (phase, _style, _query), outcome in record.outcomes.items():
        if phase == "after" and isinstance(outcome.reply, Answer):
            yield from outcome.reply.steps


def _retrieved(one: ObservedProbe, edits: Sequence[str]) -> Iterator[Value]:
    """Return whether the needed edits were retrieved. The single-hop questions of an instance need not have an edit."""
    answers = [outcome.reply for outcome in one.outcomes if isinstance(outcome.reply, Answer)]
    found = [[name for step in answer.steps for name in step.retrieved] for answer in answers]
    if one.probe.aspect == EFFICACY:
        yield one.value("edit-retrieval", any(set(names[:1]) & set(one.probe.edits) for names in found))
        return
    every = any(set(edits) <= set(names) for names in found)
    yield one.value("retrieval", every)
    yield evolve(one, missing=one.missing or ("" if every else NOT_ALL)).value("right-if-retrieved", one.right)


def _hops(one: ObservedProbe) -> Iterator[Value]:
    """Yield the results of each wording's steps, hop by hop."""
    if one.missing:
        yield one.value("hops-answered", 0)
        return
    for query, outcome in zip(one.probe.queries, one.outcomes, strict=True):
        reply = outcome.reply
        steps = [step for step in reply.steps if step.kind == SUBQUESTION] if isinstance(reply, Answer) else []
        if query.hops:
            arrived = [any(_names(hop, step, query.hops) for step in steps) for hop in query.hops]
            yield one.value("hops-answered", sum(arrived) / len(arrived))
        for hop in query.hops:
            if hop.edit is not None:
                found = [step for step in steps if step.retrieved[:1] == (hop.edit,)]
                weighed = evolve(one, missing="" if found else NOT_FOUND)
                yield weighed.value("used-if-retrieved", any(_names(hop, step, query.hops) for step in found))


def _names(hop: Query, step: Step, hops: Sequence[Query]) -> bool:
    """Return whether the step's answer is a gold name of the hop, or contains one of each entity if all are required.

    If it answers several ``hops`` of one relation, only the part about this hop's subject counts.
    """
    said = _plain(step.answer)
    names = [[_plain(name) for name in entity.names] for entity in hop.gold.entities]
    if len(names) > 1 and hop.gold.require != "any":
        return all(any(_holds(said, name) for name in own) for own in names)
    part = _said_of(hop, [other for other in hops if hop.relation and other.relation == hop.relation], said)
    return bool(said) and any(said in own or any(_holds(part, name) for name in own) for own in names)


def _said_of(hop: Query, alike: Sequence[Query], said: str) -> str:
    """Return the part of ``said`` between the hop's subject and the next subject; empty if it is not named."""
    subjects = dict(zip((one.id for one in alike), _subjects(alike), strict=True))
    own = subjects.get(hop.id)  # a single hop has nothing to differ from
    if not own or own not in said:
        return ""
    behind = said.partition(own)[2]
    ends = [at for name, other in subjects.items() if name != hop.id and other and (at := behind.find(other)) >= 0]
    return behind[: min(ends, default=len(behind))]


def _subjects(alike: Sequence[Query]) -> list[str]:
    """Return the words in which questions of one wording differ."""
    worded = [_plain(one.texts[0].rstrip("? ")).split() for one in alike]
    begin = _alike(worded)
    end = _alike([words[begin:][::-1] for words in worded])
    return [" ".join(words[begin : len(words) - end]) for words in worded]


def _alike(worded: Sequence[Sequence[str]]) -> int:
    """Return the number of leading words that all share."""
    return sum(1 for _same in takewhile(lambda column: len(set(column)) == 1, zip(*worded, strict=False)))


def _holds(text: str, name: str) -> bool:
    """Return whether ``name`` occurs in ``text`` as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")
