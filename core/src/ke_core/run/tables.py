"""A run's records by what they are keyed by, and what a metric sees of them: one ``CaseRecord`` a case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, evolve, field

from ke_core.data.codec import to_json
from ke_core.data.queries import Case, Phase
from ke_core.data.records import Batch, Judged, Probed, Replied, Spent
from ke_core.data.results import Answer, CaseRecord, Failure, Judgement, ModelRecord, Outcome, Peak, Reply
from ke_core.data.runspec import Component
from ke_core.errors import BadRun
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.lines import MEND
from ke_core.run.job import Measure
from ke_core.run.loop import BASE, NOTHING

Key = tuple[int, str, str, Phase, str]
"""Step, batch, case, phase, style: what replies and judgements are found by."""
Judgements = Mapping[Key, Mapping[str, Judgement]]

UNFINISHED = "not asked yet: the run is not finished"


@define
class Tables:
    """Of two lines with one key the later one holds."""

    batches: dict[str, Batch] = field(factory=dict)
    replies: dict[Key, Mapping[str, Reply]] = field(factory=dict)
    judged: dict[str, dict[Key, Mapping[str, Judgement]]] = field(factory=dict)
    judges: dict[str, Component] = field(factory=dict)
    """By their canonical text, in the order of their last line."""
    probed: dict[tuple[str, str], Probed] = field(factory=dict)
    """What metrics asked of models, by batch and metric."""
    answering: dict[str, Peak] = field(factory=dict)
    """What answering took, at its highest, by batch."""

    def verdicts(self, folder: RunFolder, name: str) -> tuple[Component, Mapping[Key, Mapping[str, Judgement]]]:
        """The judge of that name (the last one without a name) and its judgements, complete."""
        found = [key for key, judge in self.judges.items() if name in ("", judge.name)]
        if not found:
            by = f"by {name!r}" if name else "yet"
            raise BadRun(f"{folder.path} has not been judged {by}", hint=_how(folder, name))
        judge, judgements = self.judges[found[-1]], self.judged[found[-1]]
        open_ = sum(key not in judgements for key in self.replies)
        if open_:
            raise BadRun(
                f"{open_} of {len(self.replies)} lines of {folder.path} have not been judged by {judge.name!r}",
                hint=_how(folder, judge.name),
            )
        return judge, judgements

    def of(self, batch: str) -> Tables:
        """What is on record of one model and of the unedited one."""
        return evolve(
            self,
            batches={batch: self.batches[batch]},
            replies={key: replies for key, replies in self.replies.items() if key[1] in (BASE, batch)},
            probed={key: record for key, record in self.probed.items() if key[0] in (BASE, batch)},
        )

    def endings(self) -> list[dict[str, Any]]:
        """How answers ended, by phase and style: ``answered``, ``unparsed``, ``hop-cap``, ``length``, ``failure``.

        ``scored`` are log-probabilities, ``unscored`` those that were asked of something that gives none.
        """
        counts: Counter[tuple[str, str, str]] = Counter()
        for (_step, _batch, _case, phase, style), replies in self.replies.items():
            counts.update((phase, style, _ending(reply)) for reply in replies.values())
        return [
            {"phase": phase, "style": style, "outcome": outcome, "n": n}
            for (phase, style, outcome), n in sorted(counts.items())
        ]

    def costs(self) -> list[dict[str, Any]]:
        """What answers took in all, by phase and style: model calls, prompt tokens, generated tokens."""
        totals: dict[tuple[str, str], Counter[str]] = {}
        for (_step, _batch, _case, phase, style), replies in self.replies.items():
            total = totals.setdefault((phase, style), Counter())
            for reply in replies.values():
                if isinstance(reply, Answer):
                    total.update({"answers": 1, **to_json(reply.cost)})
        return [{"phase": phase, "style": style, **dict(total)} for (phase, style), total in sorted(totals.items())]

    def models(self, measure: Measure) -> list[ModelRecord]:
        """The unedited model, where that metric asked it anything, then each edited one: what the metric sees."""
        name = measure.component.name
        base = self.probed.get((BASE, name))
        unedited = {} if base is None else base.replies
        found = [] if base is None else [ModelRecord(batch=BASE, phase="before", replies=unedited, unedited=unedited)]
        for batch in self.batches.values():
            own = self.probed.get((batch.batch, name))
            found.append(
                ModelRecord(
                    batch=batch.batch,
                    edits=batch.edits,
                    seconds=batch.seconds,
                    first=batch.first,
                    memory=batch.memory,
                    passes=batch.passes,
                    answering=self.answering.get(batch.batch, Peak()),
                    replies={} if own is None else own.replies,
                    unedited=unedited,
                    skipped=batch.failed or ("" if batch.edits else NOTHING),
                )
            )
        return found

    def reasons(self) -> Iterator[str]:
        """Why cases were skipped, one a case."""
        for batch in self.batches.values():
            yield from batch.skipped.values()


def read(folder: RunFolder) -> Tables:
    """Take in every record. Raises BadRun for a damaged line, and for replies of an edit that is not on record."""
    tables = Tables()
    for record in folder.read():
        if isinstance(record, Batch):
            tables.batches[record.batch] = record
            continue
        if isinstance(record, Probed):
            tables.probed[record.batch, record.metric] = record
            continue
        if isinstance(record, Spent):
            continue
        key = (record.step, record.batch, record.case, record.phase, record.style)
        if isinstance(record, Replied):
            tables.replies[key] = record.replies
            tables.answering[record.batch] = highest(tables.answering.get(record.batch, Peak()), record.memory)
        else:
            _take(tables, key, record)
    _refuse_orphans(tables, folder)
    return tables


def highest(one: Peak, other: Peak) -> Peak:
    """The higher of two rises, each kind of memory by itself."""
    host = [rise for rise in (one.host, other.host) if rise is not None]
    device = [rise for rise in (one.device, other.device) if rise is not None]
    return Peak(host=max(host, default=None), device=max(device, default=None))


def _refuse_orphans(tables: Tables, folder: RunFolder) -> None:
    """A batch stands on record before its first reply: where it does not, somebody has taken its line out."""
    for _step, batch, case, _phase, _style in tables.replies:
        if batch != BASE and batch not in tables.batches:
            raise BadRun(
                f"{folder.path / RECORDS} was changed by hand: it has replies of case {case} to {batch}, but no line "
                "that says what was edited then",
                hint=MEND,
            )


def _take(tables: Tables, key: Key, record: Judged) -> None:
    text = str(to_json(record.judge))
    tables.judges.pop(text, None)
    tables.judges[text] = record.judge
    tables.judged.setdefault(text, {})[key] = record.judgements


def case_records(
    tables: Tables, cases: Mapping[str, Case], judgements: Judgements, folder: RunFolder
) -> Iterator[CaseRecord]:
    """One record a case that was asked or skipped, in the order of the dataset; as it was answered last."""
    outcomes: dict[str, dict[tuple[Phase, str, str], Outcome]] = {}
    for key, replies in tables.replies.items():
        _step, _batch, case, phase, style = key
        for query, reply in replies.items():
            if query not in judgements[key]:
                raise BadRun(
                    f"{folder.path / RECORDS} was changed by hand: case {case} has a reply to query {query} "
                    "that no judgement is about",
                    hint=MEND,
                )
            outcome = Outcome(reply=reply, judgement=judgements[key][query])
            outcomes.setdefault(case, {})[phase, style, query] = outcome
    found = {}
    for batch in tables.batches.values():
        for case in (*batch.cases, *batch.controls, *batch.skipped):
            if case not in cases:
                raise BadRun(
                    f"{folder.path} holds case {case}, which the dataset does not have",
                    hint=f"use the dataset the run was made with: sha256 {folder.spec.dataset.sha256}",
                )
            own = outcomes.get(case, {})
            found[case] = CaseRecord(
                case=cases[case],
                batch=batch.batch,
                edited=case not in batch.controls,
                outcomes=own,
                skipped=batch.skipped.get(case) or _unfinished(cases[case], own),
            )
    return (found[case] for case in cases if case in found)


def _unfinished(case: Case, outcomes: Mapping[tuple[Phase, str, str], Outcome]) -> str | None:
    """The reason why a case of a run that was killed has no answers of the edited model."""
    waits = any(probe.asked("after") for probe in case.probes)
    return UNFINISHED if waits and not any(phase == "after" for phase, _style, _query in outcomes) else None


def _ending(reply: Reply) -> str:
    if isinstance(reply, Failure):
        return "unscored" if reply.unscored else "failure"
    return reply.outcome if isinstance(reply, Answer) else "scored"


def _how(folder: RunFolder, judge: str) -> str:
    return f"ke judge {folder.path}{judge and f' --judge {judge}'}"
