"""Every score of every run as CSV, one row each: for spreadsheets and statistics programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ke_core.app import (
    ANSWERS_TITLE,
    NO_METRIC,
    Reported,
    agreement_warning,
    component_words,
    one_line,
    plan_words,
    run_labels,
)
from ke_core.plugin import MetricScore
from ke_plugin_analysis.sheets import harmless

HEADINGS = (
    "run", "path", "id", "editor", "dataset", "model", "protocol", "edited_together", "seed", "judge",
    "metric", "aspect", "phase", "style", "tag", "tag_value", "value", "measure", "n", "low", "high", "level",
    "skipped", "skipped_because", "note", "warning",
)  # fmt: skip
LONG = 10_000  # of a text in one line: nothing is cut


def scores_csv(runs: Sequence[Reported]) -> str:
    """Text of a CSV file with a line of headings; ``value``, ``low`` and ``high`` are in the unit ``measure``.

    The last column warns of a judge that agrees too little with labels written by hand, or was never checked.
    A score over a slice has its tag and the tag's value, one over everything has neither. A text that a spreadsheet
    would take for a formula has an apostrophe before it.
    """
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(HEADINGS)
    for label, run in zip(run_labels(runs), runs, strict=True):
        about, warned = _about(label, run), _warning(run)
        for score in run.scores:
            judged = score.style and score.metric != NO_METRIC  # what is said of a model as a whole has no style
            rows.writerow([_inert(cell) for cell in (*about, *_cells(score), warned if judged else "")])
    return stream.getvalue()


def _about(label: str, run: Reported) -> tuple[object, ...]:
    spec, judge = run.spec, run.tally.judge
    return (
        label, run.path, spec.id, spec.editor.name, spec.dataset.component.name, spec.model.id, plan_words(spec),
        spec.plan.size, spec.seed, component_words(judge) if judge is not None else "",
    )  # fmt: skip


def _warning(run: Reported) -> str:
    """What must stand with every number that rests on the judge."""
    return agreement_warning(run.tally.judge) if run.tally.judge is not None else ""


def _cells(score: MetricScore) -> Iterator[object]:
    ends = score.interval
    yield from (ANSWERS_TITLE if score.metric == NO_METRIC else score.metric, score.aspect, score.phase, score.style)
    yield from ("; ".join(score.tags), "; ".join(score.tags.values()), score.value, score.measure, score.n)
    yield from (ends.low, ends.high, ends.level) if ends is not None else (None, None, None)
    yield from (score.skipped, "; ".join(f"{n} x {why}" for why, n in score.skipped_because.items()), score.note)


def _inert(cell: object) -> object:
    """A cell as it is, but a text in one line and never a formula; none is empty."""
    if not isinstance(cell, str):
        return "" if cell is None else cell
    return harmless(one_line(cell, LONG))
