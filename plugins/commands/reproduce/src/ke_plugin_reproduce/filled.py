"""A table with its measured and published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from attrs import evolve, frozen

from ke_core.app import PART_TAG, TESTED
from ke_core.plugin import SHARE, Interval, MetricScore
from ke_plugin_reproduce.reading import RunNumber
from ke_plugin_reproduce.table import Pick, Printed, Reproduction

TIE = 1e-9
"""Numbers that round to the printed one match. A tie is not exact in binary."""
WHOLE = {PART_TAG: "edited", TESTED: "yes"}
"""Tags of all cases in a run without controls, and in a dataset without buckets."""


class Status(Enum):
    """How a number compares with the published one.

    MATCHES: inside the interval, or equal. UNPRINTED: the paper has no number here. ABSENT: the paper has no such cell,
    and nothing was run for it.
    """

    MATCHES = "matches"
    DIFFERS = "differs"
    UNPRINTED = "nothing printed"
    NOT_RUN = "not runnable"
    ABSENT = "not in the paper"


@frozen(kw_only=True)
class CellPart:
    """One number of a cell. Fractions are in percent, as tables print them. ``decimals``: of the printed number."""

    printed: Printed
    status: Status
    value: float | None = None
    n: int = 0
    low: float | None = None
    high: float | None = None
    why: str = ""
    notes: tuple[str, ...] = ()
    decimals: int = 1

    @property
    def difference(self) -> float | None:
        """The measured minus the published number."""
        if self.value is None or not isinstance(self.printed, float):
            return None
        return self.value - self.printed


@frozen(kw_only=True)
class FilledTable:
    """``cells[row][column]`` holds the parts of a cell. ``notes`` apply to the whole table."""

    name: str
    table: Reproduction
    cells: Sequence[Sequence[tuple[CellPart, ...]]]
    notes: tuple[str, ...] = ()

    def counts(self) -> Mapping[str, int]:
        """Count the numbers by status."""
        parts = [part for row in self.cells for cell in row for part in cell]
        return {status.value: sum(part.status is status for part in parts) for status in Status}


@frozen(kw_only=True)
class Measured:
    """A measured number."""

    value: float | None
    n: int
    interval: Interval | None = None
    why: str = ""
    notes: tuple[str, ...] = ()


def picked(scores: Sequence[MetricScore], pick: Pick) -> Measured:
    """Return the score that ``pick`` names. In a run without parts, the total counts as the requested part."""
    undivided = [tag for tag in WHOLE if not any(tag in score.tags for score in scores)]
    if any(pick.tags.get(tag, WHOLE[tag]) != WHOLE[tag] for tag in undivided):
        return Measured(value=None, n=0, why="every case is edited")
    tags = {tag: value for tag, value in pick.tags.items() if tag not in undivided}
    wanted = (pick.metric, pick.aspect, pick.style, pick.phase, tags)
    for score in scores:
        if (score.metric, score.aspect, score.style, score.phase, dict(score.tags)) == wanted:
            return _of(score, pick)
    return Measured(value=None, n=0, why=f"{pick.metric}.{pick.aspect} has no number here: {', '.join(_words(pick))}")


def mean(found: Sequence[Measured]) -> Measured:
    """Return the mean of several runs. It has no interval, because the dependence of the runs is unknown."""
    if len(found) == 1:
        return found[0]
    values = [each.value for each in found if each.value is not None]
    if len(values) < len(found):
        why = "; ".join(dict.fromkeys(each.why for each in found if each.value is None))
        return Measured(value=None, n=sum(each.n for each in found), why=why)
    note = f"mean of {len(found)} runs, no interval"
    return Measured(value=sum(values) / len(values), n=sum(each.n for each in found), notes=(note,))


def part(measured: Measured, wanted: RunNumber, notes: tuple[str, ...]) -> CellPart:
    """Compare a number with the published one."""
    made = CellPart(
        printed=wanted.printed, decimals=wanted.decimals, status=Status.NOT_RUN, n=measured.n, why=measured.why
    )
    if measured.value is None:
        return evolve(made, notes=notes)
    low, high = (measured.interval.low, measured.interval.high) if measured.interval else (None, None)
    return evolve(
        made,
        status=_status(measured.value, low, high, wanted),
        value=measured.value,
        low=low,
        high=high,
        notes=(*notes, *(note for note in measured.notes if note not in notes)),
    )


def _status(value: float, low: float | None, high: float | None, wanted: RunNumber) -> Status:
    printed = wanted.printed
    least, most = value if low is None else low, value if high is None else high
    if isinstance(printed, float):
        half_a_digit = 0.5 * 10**-wanted.decimals + TIE
        same = least - half_a_digit <= printed <= most + half_a_digit
    elif printed is not None and printed.startswith("<"):
        same = least < float(printed.removeprefix("<"))
    else:
        return Status.UNPRINTED
    return Status.MATCHES if same else Status.DIFFERS


def _of(score: MetricScore, pick: Pick) -> Measured:
    if pick.what == "n":
        return Measured(value=float(score.n), n=score.n)
    if score.value is None:
        reasons = ", ".join(f"{why} ({n})" for why, n in score.skipped_because.items())
        return Measured(value=None, n=0, why=f"nothing was left to measure: {reasons or 'no case has it'}")
    scale = _scale(score, pick)
    ends = sorted((scale * score.interval.low, scale * score.interval.high)) if score.interval else []
    interval = Interval(low=ends[0], high=ends[1]) if ends else None
    notes = (score.note,) if score.note else ()
    return Measured(value=scale * score.value, n=score.n, interval=interval, notes=notes)


def _scale(score: MetricScore, pick: Pick) -> float:
    if pick.what == "count":
        return float(score.n)
    printed = 100.0 if score.measure == SHARE else 1.0
    return -printed if pick.what == "negative" else printed


def _words(pick: Pick) -> Iterator[str]:
    yield "before editing" if pick.phase == "before" else "after editing"
    if pick.style:
        yield f"prompt {pick.style}"
    yield from (f"{name} {value}" for name, value in pick.tags.items())
