"""Count the records of a run: progress, skipped cases, failures, and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import define, field

from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.index import Index
from ke_core.results.sanitize import one_line
from ke_core.spec.queries import Phase
from ke_core.spec.records import Batch, Judged, Probed, Record, Replied, Usage
from ke_core.spec.results import SHARE, Answer, Cost, Failure, MetricScore, Reply
from ke_core.spec.runspec import Component

REASON = 100  # maximum characters of a reason


@define(kw_only=True)
class Tally:
    """Counts over one run.

    ``refused`` (edits), ``skipped`` (cases) and ``failures`` (replies) are counted by reason, ``unfinished`` (answers
    without an answered outcome) by outcome, ``warned`` (batches) by the editor's warning. ``done`` of ``total`` cases
    are finished; ``total`` is 0 if it is unknown, before the first edit or without an unedited model. ``edit_seconds``:
    time per edit of each batch. ``answers`` and ``efforts`` (by style) are of the edited model, ``cost`` is of all
    answers. ``spent``: the usage of a server. ``judge``: the last judge.
    """

    total: int = 0
    done: int = 0
    cases: int = 0
    controls: int = 0
    edits: int = 0
    edit_seconds: list[float] = field(factory=list)
    answers: int = 0
    cost: Cost = field(factory=Cost)
    spent: list[Usage] = field(factory=list)
    efforts: dict[str, Effort] = field(factory=dict)
    refused: Counter[str] = field(factory=Counter)
    warned: Counter[str] = field(factory=Counter)
    skipped: Counter[str] = field(factory=Counter)
    failures: Counter[str] = field(factory=Counter)
    unfinished: Counter[str] = field(factory=Counter)
    judge: Component | None = None

    @property
    def failed(self) -> int:
        """The number of failed replies."""
        return self.failures.total()


def tally_of(folder: RunFolder) -> Tally:
    """Count the records of ``folder``. If a request was sent again, its last reply counts."""
    return tally(Index.of(folder.path / RECORDS).records())


def tally(records: Iterable[Record]) -> Tally:
    """Count ``records``, which contain each place once."""
    made = Tally()
    edited: set[str] = set()
    controls: set[str] = set()
    skipped: set[str] = set()
    asked: dict[Phase, set[str]] = {"before": set(), "after": set()}
    begun = False
    for record in records:
        match record:
            case Batch():
                begun = True
                edited.update(record.cases)
                controls.update(record.controls)
                skipped.update(record.skipped)
                made.edits += record.edits
                made.edit_seconds += [record.seconds / record.edits] if record.edits else []
                made.refused += _reasons(record.refused)
                made.warned += Counter(one_line(str(text), REASON) for text in [record.details.get("warning")] if text)
                made.skipped += _reasons(record.skipped)
            case Replied():
                asked[record.phase].add(record.case)
                _add_replies(made, record)
            case Judged():
                made.judge = record.judge
            case Usage():
                made.spent.append(record)
            case Probed():
                _add_failures(made, record.replies.values())
    made.cases = len(edited)
    made.controls = len(controls - edited)  # later cases of a sequential run are edited in a later step
    made.done = len(asked["after"] | skipped)
    made.total = len(asked["before"] | asked["after"] | skipped) if begun and asked["before"] else 0
    return made


def _add_replies(made: Tally, replied: Replied) -> None:
    if replied.phase == "after":
        made.efforts.setdefault(replied.style, Effort()).add(replied)
    _add_failures(made, replied.replies.values())
    for reply in replied.replies.values():
        if isinstance(reply, Answer):
            made.cost += reply.cost
        if isinstance(reply, Answer) and replied.phase == "after":
            made.answers += 1
            if reply.outcome != "answered":
                made.unfinished[reply.outcome] += 1


def _add_failures(made: Tally, replies: Iterable[Reply]) -> None:
    for reply in replies:
        if isinstance(reply, Failure) and not reply.unscored:
            made.failures[one_line(f"{reply.error}: {reply.message}", REASON)] += 1


def _reasons(by_id: Mapping[str, str]) -> Counter[str]:
    return Counter(one_line(reason, REASON) for reason in by_id.values())


NO_METRIC = ""
"""The metric name of scores that no metric computes."""
ANSWERS_TITLE = "answers"
HEADINGS = {
    "unparsed": "unparsed",
    "cut-off": "cut off",
    "calls": "model calls",
    "prompt-tokens": "tokens read",
    "tokens": "tokens written",
    "seconds": "time",
}


@define(kw_only=True)
class Effort:
    """Sums over the replies of the edited models in one style.

    ``replies`` counts answers and failures. ``unparsed``: answers without the expected form. ``cut``: answers with too
    many hops or truncated by the token limit. ``seconds``: wall time, divided among the answers that were generated
    together, without the ``cached`` answers.
    """

    replies: int = 0
    answers: int = 0
    unparsed: int = 0
    cut: int = 0
    cost: Cost = field(factory=Cost)
    seconds: float = 0.0
    cached: int = 0

    def add(self, replied: Replied) -> None:
        """Count one line of the records."""
        for reply in replied.replies.values():
            self.replies += isinstance(reply, Answer) or (isinstance(reply, Failure) and not reply.unscored)
            if not isinstance(reply, Answer):
                continue
            self.answers += 1
            self.unparsed += reply.outcome == "unparsed"
            self.cut += reply.outcome in ("hop-cap", "length")
            self.cost += reply.cost
            if replied.cached:
                self.cached += 1
            else:
                self.seconds += replied.seconds / len(replied.replies)


def effort_scores(efforts: Mapping[str, Effort]) -> Iterable[MetricScore]:
    """Yield the mean over questions for each style and each of ``HEADINGS``. Fractions are of all replies."""
    for style, effort in efforts.items():
        sums: dict[str, tuple[float, int, str]] = {
            "unparsed": (effort.unparsed, effort.replies, SHARE),
            "cut-off": (effort.cut, effort.replies, SHARE),
            "calls": (effort.cost.calls, effort.answers, ""),
            "prompt-tokens": (effort.cost.prompt_tokens, effort.answers, ""),
            "tokens": (effort.cost.tokens, effort.answers, ""),
            "seconds": (effort.seconds, effort.answers - effort.cached, "s"),
        }
        for aspect, (total, n, measure) in sums.items():
            if n:
                yield MetricScore(metric=NO_METRIC, aspect=aspect, value=total / n, n=n, style=style, measure=measure)
