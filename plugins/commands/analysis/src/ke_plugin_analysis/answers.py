"""The answers of a run, case by case: the last reply in each place and its judgment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from ke_core.app import RECORDS, Batch, Component, Index, RunFolder, evaluations, key_of
from ke_core.plugin import Case, Dataset, Judgment, Phase, Reply

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
    """The benchmark of a run, or the reason why it is missing. ``cases`` may be read anew by each iteration."""

    dataset: Dataset | None = None
    cases: Iterable[Case] = ()
    why_not: str = ""


@frozen
class RecordedAnswers(Mapping[str, AnsweredCase]):
    """The answers of a run by case, with the judgments of ``judge``. A case is read when it is requested.

    As in scores, the last line of a place counts, and so does the last evaluation of a sequential run.
    """

    index: Index
    judge: str
    names: Mapping[str, None]

    @classmethod
    def of(cls, folder: RunFolder, judge: Component | None) -> RecordedAnswers:
        """Index the records of a run. Raises BadRun for a damaged line."""
        index = Index.of(folder.path / RECORDS)
        return cls(index, "" if judge is None else key_of(judge), dict.fromkeys(index.cases))

    def __getitem__(self, name: str) -> AnsweredCase:
        """Read the answers of a case."""
        if name not in self.names:
            raise KeyError(name)
        within, lines = self.index.within(name), self.index.replies(name)
        judged = self.index.judgments(name, self.judge)
        case = AnsweredCase()
        for line in lines:
            verdicts = judged[line.place].judgments if line.place in judged else {}
            case.replies |= {(query, line.phase, line.style): reply for query, reply in line.replies.items()}
            case.judgments |= {(query, line.phase, line.style): verdict for query, verdict in verdicts.items()}
        if within:
            places = evaluations(name, lines, within)
            case.rounds = len(places)
            batch, case.edited = within[places[-1]]
            case.problems, case.refused = tuple(_problems(batch, name)), batch.refused
        return case

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the recorded cases."""
        return iter(self.names)

    def __len__(self) -> int:
        """Return the number of recorded cases."""
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        """Return whether the case has a record, without reading it."""
        return name in self.names


def _problems(batch: Batch, case: str) -> Iterator[str]:
    if batch.failed:
        yield f"its edits failed: {batch.failed}"
    if case in batch.skipped:
        yield f"skipped: {batch.skipped[case]}"
    if case in batch.controls:
        yield "a control: its edits were not applied, so the pre-edit answer is right"
