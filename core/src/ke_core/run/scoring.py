"""Scores from records alone: no model, no torch, and the same bytes whenever they are computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from ke_core.data.codec import to_json
from ke_core.data.queries import Case, Phase
from ke_core.data.records import Batch, Judged, Probed, Replied, Spent
from ke_core.data.results import Answer, CaseRecord, Failure, Judgement, ModelRecord, Outcome, Reply, Score
from ke_core.data.runspec import SCHEMA, Component
from ke_core.errors import BadRun
from ke_core.results.aggregate import aggregate
from ke_core.results.folder import RunFolder
from ke_core.run.job import Measure
from ke_core.run.loop import BASE, NOTHING

Key = tuple[int, str, str, Phase, str]
"""Step, batch, case, phase, style: what replies and judgements are found by."""

EDITS_MADE = "edits made"
"""The tag of scores of one step of sequential editing."""
UNFINISHED = "not asked yet: the run is not finished"


def score_run(folder: RunFolder, cases: Iterable[Case], measures: Sequence[Measure], *, judge: str = "") -> list[Score]:
    """Compute every metric and write ``scores.json``: the scores, the metrics and the judge they rest on.

    ``judge`` names the judge; without it, the one that judged last. Also written: how answers ended, by
    phase and style (``unparsed``, ``failure`` ... are wrong ones, in n), what they took, and why cases were skipped.
    Raises BadRun if the run has not been judged.
    """
    tables = _read(folder)
    component, judgements = tables.verdicts(folder, judge)
    by_id = {case.id: case for case in cases}
    views = _views(tables, by_id, judgements, folder)
    scored = [
        (measure, [score for view in views for score in _scores(view, measure, seed=folder.spec.seed)])
        for measure in measures
    ]
    folder.write_scores(
        {
            "schema": SCHEMA,
            "run": folder.id,
            "judge": to_json(component),
            "metrics": [
                {"component": to_json(measure.component), "scores": to_json(scores, list[Score])}
                for measure, scores in scored
            ],
            "outcomes": tables.endings(),
            "costs": tables.costs(),
            "skipped": dict(sorted(Counter(tables.reasons()).items())),
        }
    )
    return [score for _measure, scores in scored for score in scores]


@frozen(kw_only=True)
class _View:
    """Records that are scored together, and the models they are of. ``tags``: which part of the run that is."""

    records: Sequence[CaseRecord]
    tables: _Tables
    tags: Mapping[str, str]


def _views(
    tables: _Tables, cases: Mapping[str, Case], judgements: Mapping[Key, Mapping[str, Judgement]], folder: RunFolder
) -> list[_View]:
    """The whole run; of a sequential one, whose cases are asked again and again, also each step by itself.

    In the whole a case counts as it was answered last.
    """
    found = [_View(records=list(_records(tables, cases, judgements, folder)), tables=tables, tags={})]
    made = 0
    for batch in tables.batches.values() if folder.spec.plan.sequential else ():
        made += 0 if batch.failed else batch.edits
        own = tables.of(batch.batch)
        records = list(_records(own, cases, judgements, folder))
        if any(phase == "after" for _step, _batch, _case, phase, _style in own.replies):
            found.append(_View(records=records, tables=own, tags={EDITS_MADE: str(made)}))
    return found


def _scores(view: _View, measure: Measure, *, seed: int) -> Iterator[Score]:
    """All scores of a view; of one step those of all its cases, told apart by how many edits were in the model."""
    models = view.tables.models(measure)
    for score in aggregate(measure.metric, measure.spec, view.records, models=models, seed=seed):
        if not view.tags:
            yield score
        elif not score.tags and score.phase == "after":
            yield evolve(score, tags=view.tags)


@define
class _Tables:
    """The records by what they are keyed by; of two lines with one key the later one holds."""

    batches: dict[str, Batch] = field(factory=dict)
    replies: dict[Key, Mapping[str, Reply]] = field(factory=dict)
    judged: dict[str, dict[Key, Mapping[str, Judgement]]] = field(factory=dict)
    judges: dict[str, Component] = field(factory=dict)
    """By their canonical text, in the order of their last line."""
    probed: dict[tuple[str, str], Probed] = field(factory=dict)
    """What metrics asked of models, by batch and metric."""

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

    def of(self, batch: str) -> _Tables:
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


def _read(folder: RunFolder) -> _Tables:
    tables = _Tables()
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
        else:
            _take(tables, key, record)
    return tables


def _take(tables: _Tables, key: Key, record: Judged) -> None:
    text = str(to_json(record.judge))
    tables.judges.pop(text, None)
    tables.judges[text] = record.judge
    tables.judged.setdefault(text, {})[key] = record.judgements


def _records(
    tables: _Tables, cases: Mapping[str, Case], judgements: Mapping[Key, Mapping[str, Judgement]], folder: RunFolder
) -> Iterator[CaseRecord]:
    """One record a case that was asked or skipped, in the order of the dataset."""
    outcomes: dict[str, dict[tuple[Phase, str, str], Outcome]] = {}
    for key, replies in tables.replies.items():
        _step, _batch, case, phase, style = key
        for query, reply in replies.items():
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
