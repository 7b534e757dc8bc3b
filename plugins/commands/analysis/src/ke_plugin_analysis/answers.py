"""The answers of a run, case by case: the last reply in each place and its judgment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field, frozen

from ke_core.app import Batch, Component, Judged, Probed, Replied, RunFolder
from ke_core.plugin import Case, Dataset, Judgment, Phase, Reply, Usage

QueryKey = tuple[str, Phase, str]
"""Query, phase and style: the place of a reply in its case."""


@define(kw_only=True)
class AnsweredCase:
    """One case of a run. ``rounds``: the number of evaluations in a sequential run; the last one counts.

    ``problems``: lines for the reader, such as why it was skipped. ``refused``: edits of its batch, to the reason.
    """

    edited: bool = True
    rounds: int = 0
    problems: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(factory=dict)
    replies: dict[QueryKey, Reply] = field(factory=dict)
    judgments: dict[QueryKey, Judgment] = field(factory=dict)


@frozen(kw_only=True)
class RunDataset:
    """The benchmark of a run, or the reason why it is missing."""

    dataset: Dataset | None = None
    cases: tuple[Case, ...] = ()
    why_not: str = ""


def read_answers(folder: RunFolder, judge: Component | None) -> dict[str, AnsweredCase]:
    """Return the recorded answers by case, in the order of the record, with the judgments of ``judge``.

    As in scores, the last line of a place counts, and so does the last evaluation of a sequential run.
    """
    lines: dict[tuple[str, ...], Replied] = {}
    judged: dict[tuple[str, ...], Judged] = {}
    batches: dict[str, Batch] = {}
    for record in folder.read():
        match record:
            case Batch():
                batches[record.batch] = record
            case Replied():
                lines[record.place] = record
                judged.pop(record.place, None)  # evaluated again: the judgment is of an earlier reply
            case Judged():
                if record.judge == judge:
                    judged[record.place] = record
            case Probed() | Usage():
                continue
    found: dict[str, AnsweredCase] = {}
    for place, line in lines.items():
        case = found.setdefault(line.case, AnsweredCase())
        case.replies |= {(query, line.phase, line.style): reply for query, reply in line.replies.items()}
        judgments = judged[place].judgments if place in judged else {}
        case.judgments |= {(query, line.phase, line.style): verdict for query, verdict in judgments.items()}
    for batch in batches.values():
        for name in dict.fromkeys((*batch.cases, *batch.controls, *batch.skipped)):
            case = found.setdefault(name, AnsweredCase())
            case.edited = name not in batch.controls
            case.rounds += 1
            case.problems, case.refused = tuple(_problems(batch, name)), batch.refused
    return found


def _problems(batch: Batch, case: str) -> Iterator[str]:
    if batch.failed:
        yield f"its edits failed: {batch.failed}"
    if case in batch.skipped:
        yield f"skipped: {batch.skipped[case]}"
    if case in batch.controls:
        yield "a control: its edits were not applied, so the pre-edit answer is right"
