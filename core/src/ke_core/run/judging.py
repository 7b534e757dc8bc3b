"""Judging a finished run: verdicts are appended to the records, the edited model is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ke_core.data.queries import Case, Phase, Probe, Query, expected
from ke_core.data.records import Batch, Judged, Probed, Replied, Spent
from ke_core.data.results import Failure, Finding, Item, Judgement, Scored, Verdict
from ke_core.data.runspec import Component, RunSpec
from ke_core.errors import BadRun, PluginBroken
from ke_core.protocols import Judge, Session
from ke_core.results.folder import RunFolder
from ke_core.run.asks import asked

TOGETHER, FEW = 64, 16
"""Lines that are judged and written together: what a killed judge loses. Fewer where a model is asked."""


def judge_run(
    folder: RunFolder,
    cases: Iterable[Case],
    judge: Judge,
    component: Component,
    *,
    session: Session[Any] | None = None,
    scored: bool = False,
) -> int:
    """Append a ``Judged`` line for every ``Replied`` line that ``component`` has not judged; how many there were.

    ``component`` (name, version, every option, the model it asks) is the judge's identity: with another option it
    judges anew. Where it has judged everything before another one did, its last line is repeated: the last judge
    counts. ``session``: of a judge that asks a model. ``scored``: it is given log-probabilities too.
    """
    by_id = {case.id: case for case in cases}
    together = TOGETHER if session is None else FEW
    with folder.writing() as writer:
        todo, controls, again = _todo(folder, component)
        writer.append(again)
        for start in range(0, len(todo), together):
            lines = todo[start : start + together]
            items = [_items(line, by_id, folder, edited=(line.batch, line.case) not in controls) for line in lines]
            flat = [item for each in items for item in each.values()]
            verdicts = iter(judged(judge, component, flat, session=session, scored=scored))
            writer.append(
                Judged(
                    step=line.step,
                    batch=line.batch,
                    case=line.case,
                    phase=line.phase,
                    style=line.style,
                    judge=component,
                    judgements={query: next(verdicts) for query in each},
                )
                for line, each in zip(lines, items, strict=True)
            )
            if session is not None:
                session.progress.advance("lines judged", start + len(lines), len(todo))
    return len(todo)


def gold_of(case: Case, phase: Phase, spec: RunSpec, *, edited: bool) -> Mapping[str, Query]:
    """The queries of ``case`` as they are put in that phase, with the answers that are right at that moment."""
    found: dict[str, Query] = {}
    for query, probe in _with_probe(case, phase):
        if query.id not in found:
            right = query if probe is None else expected(query, probe, phase, edited=edited)
            found[query.id] = asked(right, phase, spec.edited_form, edited=edited)
    return found


def held(case: Case, phase: Phase, *, edited: bool) -> tuple[str, ...]:
    """What ``case`` says is true in that phase, in sentences, each once: of its edits, then of the facts behind it."""
    new = phase == "after" and edited
    of_edits = [edit.statement if new else edit.before.sentence if edit.before else "" for edit in case.edits]
    behind = [fact.sentence for fact in (case.facts_after if new else case.facts_before)]
    # what the file itself says of a fact comes before what is made up of its labels
    said = [*of_edits, *behind] if new else [*behind, *of_edits]
    return tuple(dict.fromkeys(sentence.strip() for sentence in said if sentence.strip()))


def _with_probe(case: Case, phase: Phase) -> Iterator[tuple[Query, Probe | None]]:
    """Each query with the probe that decides what is right; a condition's gold stands as it is."""
    for probe in case.probes:
        if probe.asked(phase):
            yield from ((query, probe) for query in probe.queries)
        if phase == "before":
            yield from ((query, None) for query in probe.given)


def _todo(folder: RunFolder, component: Component) -> tuple[list[Replied], frozenset[tuple[str, str]], list[Judged]]:
    """The lines to judge, (batch, case) of the controls, and a line to repeat where another judge was the last."""
    lines: dict[tuple[int, str, str, str, str], Replied] = {}
    controls: set[tuple[str, str]] = set()
    judged = set()
    last: Judged | None = None
    own: Judged | None = None
    for record in folder.read():
        if isinstance(record, Batch):
            controls.update((record.batch, case) for case in record.controls)
        if isinstance(record, Batch | Probed | Spent):
            continue
        key = (record.step, record.batch, record.case, record.phase, record.style)
        if isinstance(record, Replied):
            lines[key] = record
            continue
        last = record
        if record.judge == component:
            own = record
            judged.add(key)
    todo = [line for key, line in lines.items() if key not in judged]
    again = [own] if own is not None and last is not own and not todo else []
    return todo, frozenset(controls), again


def _items(line: Replied, cases: Mapping[str, Case], folder: RunFolder, *, edited: bool) -> dict[str, Item]:
    case = cases.get(line.case)
    found = gold_of(case, line.phase, folder.spec, edited=edited) if case else {}
    for query in line.replies:
        if query not in found:
            raise BadRun(
                f"{folder.path} has a reply to query {query} of case {line.case}, which the dataset does not have",
                hint=f"use the dataset the run was made with: sha256 {folder.spec.dataset.sha256}",
            )
    facts = held(case, line.phase, edited=edited) if case else ()
    return {query: Item(query=found[query], reply=reply, facts=facts) for query, reply in line.replies.items()}


def judged(
    judge: Judge, component: Component, items: Sequence[Item], *, session: Session[Any] | None, scored: bool
) -> list[Judgement]:
    """One judgement an item. What is settled whatever the judge, it is not asked about."""
    settled = [_settled(item, scored=scored) for item in items]
    answered = [item for item, judgement in zip(items, settled, strict=True) if judgement is None]
    given = judge.judge(session, answered) if answered else []
    if len(given) != len(answered):
        raise PluginBroken(
            f"judge {component.name} returned {len(given)} judgements of {len(answered)} replies",
            hint=f"tell the author of {component.name}",
        )
    rest = iter(given)
    return [next(rest) if judgement is None else judgement for judgement in settled]


def _settled(item: Item, *, scored: bool) -> Judgement | None:
    """A ``Failure`` is wrong. Log-probabilities have no verdict, nor has their absence, unless the judge is ``scored``:
    metrics read the numbers.
    """
    reply = item.reply
    if (isinstance(reply, Scored) and not scored) or (isinstance(reply, Failure) and reply.unscored):
        return Judgement(verdict=Verdict.UNSURE, findings=(Finding(item="log-probabilities", label="not-a-text"),))
    if isinstance(reply, Failure):
        return Judgement(verdict=Verdict.WRONG, findings=(Finding(item=reply.error, label="failure"),))
    return None
