"""What a method that looks things up found, and what it made of it (MQuAKE, appendix: retrieval accuracy).

===================== ===========================================================================================
aspect                value, for one case unless it says otherwise
===================== ===========================================================================================
edit-retrieval        for each edit: 1 if it is the first thing retrieved for its own question
retrieval             1 if, for some wording of the question, every edit of the case was retrieved (Table 14)
right-if-retrieved    of the cases where that is 1: 1 if some wording is answered right
hops-answered         for each wording: the share of its hops whose answer some step arrived at
edit-weighed          for each hop of a wording whose edit some step retrieved: 1 if that step arrived at its object
===================== ===========================================================================================

All but the first are of the questions behind which there are several facts: multi-hop (MQuAKE), complex (CompKE) and
reasoning (ReCoE). They exist only for cases where some answer has steps, that is, where the method looks things up; a
question for which it looked up nothing, or which failed, then counts as 0. Controls have no edits to retrieve. The last
two exist where steps are sub-questions; no judge sees a step, so its answer is compared here, with the hop's
gold names, letters' case and a full stop at the end aside; of a hop with several answers it has to hold all (CompKE).
One step may answer several hops of one relation, as CompKE's demonstrations do ("Ada Reed in Moscow, Grace Hopper in
New York"): what is said of a hop's own subject is compared then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from attrs import evolve, frozen

from ke_core.plugin import EFFICACY, Answer, CaseRecord, Query, Step, Value
from ke_plugin_multi_hop.observed import MULTI_HOP, ObservedProbe, asked

QUESTIONS = (MULTI_HOP, "complex", "reasoning")
SUBQUESTION = "subquestion"
NOT_ALL = "not every edit of the case was retrieved"
NOT_FOUND = "the edit of the hop was not retrieved"


@frozen(kw_only=True)
class Retrieval:
    """Reads records; nothing else."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Every observation of this case."""
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
    """Every step of the edited model's answers; with one, an answer that failed before its first look-up counts too."""
    for (phase, _style, _query), outcome in record.outcomes.items():
        if phase == "after" and isinstance(outcome.reply, Answer):
            yield from outcome.reply.steps


def _retrieved(one: ObservedProbe, edits: Sequence[str]) -> Iterator[Value]:
    """Whether what was looked up was what was needed. The single-hop questions of an instance need no edit each."""
    answers = [outcome.reply for outcome in one.outcomes if isinstance(outcome.reply, Answer)]
    found = [[name for step in answer.steps for name in step.retrieved] for answer in answers]
    if one.probe.aspect == EFFICACY:
        yield one.value("edit-retrieval", any(names[:1] == list(one.probe.edits) for names in found))
        return
    every = any(set(edits) <= set(names) for names in found)
    yield one.value("retrieval", every)
    yield evolve(one, missing=one.missing or ("" if every else NOT_ALL)).value("right-if-retrieved", one.right)


def _hops(one: ObservedProbe) -> Iterator[Value]:
    """How far each wording's steps came, hop by hop."""
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
                yield weighed.value("edit-weighed", any(_names(hop, step, query.hops) for step in found))


def _names(hop: Query, step: Step, hops: Sequence[Query]) -> bool:
    """Whether the step's answer is a gold name of the hop; holds one of each entity where all are asked for.

    Where it answers several ``hops`` of one relation, it is enough that it says so of this one's subject.
    """
    said = _plain(step.answer)
    names = [[_plain(name) for name in entity.names] for entity in hop.gold.entities]
    if len(names) > 1 and hop.gold.require != "any":
        return all(any(_holds(said, name) for name in own) for own in names)
    part = _said_of(hop, [other for other in hops if hop.relation and other.relation == hop.relation], said)
    return bool(said) and any(said in own or any(_holds(part, name) for name in own) for own in names)


def _said_of(hop: Query, alike: Sequence[Query], said: str) -> str:
    """What stands behind the hop's subject in ``said``, up to the subject of another; empty where it is not named."""
    subjects = dict(zip((one.id for one in alike), _subjects(alike), strict=True))
    own = subjects.get(hop.id)  # of one hop alone there is nothing in which it differs
    if not own or own not in said:
        return ""
    behind = said.partition(own)[2]
    ends = [at for name, other in subjects.items() if name != hop.id and other and (at := behind.find(other)) >= 0]
    return behind[: min(ends, default=len(behind))]


def _subjects(alike: Sequence[Query]) -> list[str]:
    """The words in which questions of one wording differ."""
    worded = [_plain(one.texts[0].rstrip("? ")).split() for one in alike]
    begin = _alike(worded)
    end = _alike([words[begin:][::-1] for words in worded])
    return [" ".join(words[begin : len(words) - end]) for words in worded]


def _alike(worded: Sequence[Sequence[str]]) -> int:
    """With how many words all begin."""
    return sum(1 for _same in takewhile(lambda column: len(set(column)) == 1, zip(*worded, strict=False)))


def _holds(text: str, name: str) -> bool:
    """Whether ``name`` stands in ``text`` between word borders."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")
