"""Read the records of a run as metrics see them: one ``CaseRecord`` for each case, read when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.index import Index
from ke_core.results.lines import RESTORE_HINT
from ke_core.runner.run import Measure
from ke_core.runner.steps import NOTHING, UNEDITED_BATCH
from ke_core.spec.errors import BadRun
from ke_core.spec.queries import Case, Phase
from ke_core.spec.records import Batch, Judged, Replied
from ke_core.spec.results import CaseRecord, ModelRecord, Outcome, Peak, Reply

UNFINISHED = "not asked yet: the run is not finished"


def read(folder: RunFolder) -> Index:
    """Index every record. Raises BadRun for a damaged line, and for replies of a batch that is not recorded.

    A batch is recorded before its first reply, so a missing batch was deleted manually.
    """
    index = Index.of(folder.path / RECORDS)
    for batch, _phase in sorted(index.asked):
        if batch != UNEDITED_BATCH and batch not in index.batches:
            raise BadRun(
                f"{folder.path / RECORDS} was changed manually: it has replies of case {index.first_of(batch)} to "
                f"{batch}, but no line that says what was edited then",
                hint=RESTORE_HINT,
            )
    return index


def judge_of(index: Index, folder: RunFolder, name: str) -> str:
    """Return the key of the judge of that name, or of the last judge. Raises BadRun if it has not judged everything."""
    refuse_empty(index, folder)
    found = [key for key, judge in index.judges.items() if name in ("", judge.name)]
    if not found:
        by = f"by {name!r}" if name else "yet"
        raise BadRun(f"{folder.path} has not been judged {by}", hint=_how(folder, name))
    judge = index.judges[found[-1]]
    if waiting := index.count(found[-1]):
        raise BadRun(
            f"{waiting} of {index.count()} lines of {folder.path} have not been judged by {judge.name!r}",
            hint=_how(folder, judge.name),
        )
    return found[-1]


def refuse_empty(index: Index, folder: RunFolder) -> None:
    """Raise BadRun if there is nothing to judge or to score: no answer, or every case of a complete run was skipped."""
    skipped = [reason for batch in index.batches.values() for reason in batch.skipped.values()]
    if any(phase == "after" for _batch, phase in index.asked) or (index.count() and not (skipped and folder.complete)):
        return
    show = f"ke runs show {folder.path}"
    if skipped:
        raise BadRun(
            f"no case of {folder.path} was asked: {len(skipped)} skipped, the first of them because {skipped[0]}",
            hint=f"{show} counts the reasons",
        )
    raise BadRun(
        f"{folder.path} was interrupted before any case was asked",
        hint=f"start its ke eval again to resume it: {show} shows its settings",
    )


def evaluations(case: str, lines: Sequence[Replied], within: Sequence[tuple[Batch, bool]]) -> list[int]:
    """Return the places in ``within`` of the batches that asked or skipped a case; without any, the last place.

    A run that was killed may have begun a step without asking every case again.
    """
    asked = {line.batch for line in lines if line.phase == "after"}
    found = [at for at, (batch, _edited) in enumerate(within) if case in batch.skipped or batch.batch in asked]
    return found or [len(within) - 1]


@frozen(kw_only=True)
class CaseLines:
    """The recorded lines of one case, and its batches with whether it is edited in them."""

    case: Case
    lines: Sequence[Replied]
    judged: Mapping[tuple[str, ...], Judged]
    within: Sequence[tuple[Batch, bool]]
    file: str

    def last(self) -> CaseRecord:
        """Return the case with its last answers, whatever the step."""
        last = evaluations(self.case.id, self.lines, self.within)[-1]
        batch, edited = self.within[last]
        upto = {UNEDITED_BATCH, *(earlier.batch for earlier, _edited in self.within[: last + 1])}
        return self._record(batch, [line for line in self.lines if line.batch in upto], edited=edited)

    def steps(self) -> Iterator[CaseRecord]:
        """Yield the case after each batch, with the replies of the unedited model."""
        by_batch: dict[str, list[Replied]] = {}
        for line in self.lines:
            by_batch.setdefault(line.batch, []).append(line)
        for batch, edited in self.within:
            lines = [*by_batch.get(UNEDITED_BATCH, ()), *by_batch.get(batch.batch, ())]
            yield self._record(batch, lines, edited=edited)

    def _record(self, batch: Batch, lines: Sequence[Replied], *, edited: bool) -> CaseRecord:
        outcomes = {
            (line.phase, line.style, query): self._outcome(line, query, reply)
            for line in lines
            for query, reply in line.replies.items()
        }
        return CaseRecord(
            case=self.case,
            batch=batch.batch,
            edited=edited,
            outcomes=outcomes,
            skipped=batch.skipped.get(self.case.id) or _unfinished(self.case, outcomes),
        )

    def _outcome(self, line: Replied, query: str, reply: Reply) -> Outcome:
        said = self.judged[line.place].judgments
        if query not in said:
            raise BadRun(
                f"{self.file} was changed manually: case {self.case.id} has a reply to query {query} that no judgment "
                "is about",
                hint=RESTORE_HINT,
            )
        return Outcome(reply=reply, judgment=said[query])


def case_lines(index: Index, cases: Iterable[Case], judge: str, folder: RunFolder) -> Iterator[CaseLines]:
    """Yield the recorded cases in the order of the dataset. Raises BadRun if the dataset lacks one."""
    waiting = set(index.cases)
    for case in cases:
        if case.id in waiting:
            waiting.remove(case.id)
            yield CaseLines(
                case=case,
                lines=index.replies(case.id),
                judged=index.judgments(case.id, judge),
                within=index.within(case.id),
                file=str(index.file),
            )
    for name in index.cases:
        if name in waiting:
            raise not_in_dataset(folder, f"case {name}")


def not_in_dataset(folder: RunFolder, what: str) -> BadRun:
    """Return the error for something recorded that the dataset lacks."""
    hint = f"use the dataset the run was made with: sha256 {folder.spec.dataset.sha256}"
    return BadRun(f"{folder.path} has {what}, which the dataset does not have", hint=hint)


def models(
    index: Index, measure: Measure, memory: Mapping[str, Peak], *, sequential: bool = False
) -> Iterator[ModelRecord]:
    """Yield the models as a metric sees them: the unedited model if the metric sent it requests, then each edited one.

    ``memory``: the peak memory of answering, by batch. In a ``sequential`` run, a metric with requests of its own sees
    only the models that it asked. A step whose own edits failed has the edits of the steps before it.
    """
    name = measure.component.name
    base = index.probed(UNEDITED_BATCH, name)
    asks = sequential and any(index.probed(batch, name) for batch in index.batches)
    unedited = {} if base is None else base.replies
    if base is not None:
        yield ModelRecord(batch=UNEDITED_BATCH, phase="before", replies=unedited, unedited=unedited)
    for batch in index.batches.values():
        own = index.probed(batch.batch, name)
        if asks and own is None:
            continue
        yield ModelRecord(
            batch=batch.batch,
            edits=batch.edits,
            seconds=batch.seconds,
            first=batch.first,
            memory=batch.memory,
            passes=batch.passes,
            answering=memory.get(batch.batch, Peak()),
            replies={} if own is None else own.replies,
            unedited=unedited,
            skipped="" if asks else batch.failed or ("" if batch.edits else NOTHING),
        )


def highest(one: Peak, other: Peak) -> Peak:
    """Return the higher of two rises for each kind of memory."""
    host = [rise for rise in (one.host, other.host) if rise is not None]
    device = [rise for rise in (one.device, other.device) if rise is not None]
    return Peak(host=max(host, default=None), device=max(device, default=None))


def _unfinished(case: Case, outcomes: Mapping[tuple[Phase, str, str], Outcome]) -> str | None:
    """Return the reason why a case of an unfinished run has no answers of the edited model, or None."""
    waits = any(probe.asked("after") for probe in case.probes)
    return UNFINISHED if waits and not any(phase == "after" for phase, _style, _query in outcomes) else None


def _how(folder: RunFolder, judge: str) -> str:
    return f"ke judge {folder.path}{judge and f' --judge {judge}'}"
