"""Oracle material ``sub-questions``: every question taken apart by its benchmark, with tentative answers.

A method that takes questions apart can fail at that, at retrieving, or at weighing what it retrieved. Given this
material it has only the last two left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from ke_core.data.queries import Case, Phase, Query

SUB_QUESTIONS = "sub-questions"
"""The name of the material. Its value: ``case/query`` to ``{phase: sub-questions in order}``."""


@frozen(kw_only=True)
class SubQuestion:
    """A single-hop question, and the answer of a model that knows every fact as it was before the edits.

    ``statement``: that answer as a sentence without full stop, where the question has a cloze; else the answer alone.
    """

    question: str
    answer: str
    statement: str


def sub_questions(cases: Iterable[Case]) -> dict[str, Mapping[Phase, tuple[SubQuestion, ...]]]:
    """``case/query`` to its sub-questions, for the queries asked after editing that can be taken apart.

    ``after``: the hops that are right once the case's edits are made. An edited hop's tentative answer is the
    one that was right before the edit, any other hop's is its gold answer. ``before``: the hops of the old world,
    for a control, whose edits are withheld. A single-hop question is its own only sub-question.

    Left out: a question whose answer is not that of its last hop (a set operation comes after it), and one of which
    nothing says what was right before the edits, since its gold answer would give the edited world away (V16).
    """
    found: dict[str, Mapping[Phase, tuple[SubQuestion, ...]]] = {}
    for case in cases:
        unedited = set(_unedited(case))
        for probe in case.probes:
            for query in probe.queries if probe.asked("after") else ():
                after, before = query.hops or (query,), query.hops_before or query.hops or (query,)
                if after[-1].gold == query.gold and all(hop.stale or hop.id in unedited for hop in after):
                    found[f"{case.id}/{query.id}"] = {"after": tuple(_asked(after)), "before": tuple(_asked(before))}
    return found


def _unedited(case: Case) -> Iterator[str]:
    """Ids of the queries that have one answer in both worlds: hops that no edit is about, and what is asked in both."""
    for probe in case.probes:
        both = probe.queries if probe.phase == "both" else ()
        for single in (*both, *(hop for query in probe.queries for hop in query.hops)):
            if single.edit is None and not single.hops:
                yield single.id


def _asked(hops: Iterable[Query]) -> Iterator[SubQuestion]:
    for hop in hops:
        answer = ", ".join(entity.label for entity in (hop.stale or hop.gold).entities)
        statement = f"{hop.cloze} {answer}" if hop.cloze else answer
        yield SubQuestion(question=hop.texts[0], answer=answer, statement=statement)
