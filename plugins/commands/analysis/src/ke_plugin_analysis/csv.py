"""Write every score of every run as CSV, one per row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ke_core.app import (
    ANSWERS_TITLE,
    NO_METRIC,
    Component,
    Reported,
    agreement_warning,
    one_line,
    plan_words,
    run_labels,
)
from ke_core.plugin import MetricScore
from ke_plugin_analysis.footer import component_words
from ke_plugin_analysis.sheets import harmless

HEADINGS = (
    "run", "path", "id", "editor", "dataset", "model", "protocol", "edited_together", "seed", "judge",
    "metric", "aspect", "phase", "style", "tag", "tag_value", "value", "measure", "n", "low", "high", "level",
    "skipped", "skipped_because", "note", "warning",
)  # fmt: skip
LONG = 10_000  # characters of a text in one line


def scores_csv(runs: Sequence[Reported]) -> str:
    """Return the text of a CSV file with headings. ``value``, ``low`` and ``high`` are in the unit ``measure``.

    A score over a slice has a tag and its value; a score over everything has neither. The last column warns about a
    judge that was never checked or agrees too little with manual labels. Texts that a spreadsheet would read as
    formulas start with an apostrophe.
    """
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(HEADINGS)
    for label, run in zip(run_labels(runs), runs, strict=True):
        about, warned = _about(label, run), _warning(run)
        for score in run.scores:
            judged = score.style and score.metric != NO_METRIC  # a score of a whole model has no style
            rows.writerow([_inert(cell) for cell in (*about, *_cells(score), warned if judged else "")])
    return stream.getvalue()


def _about(label: str, run: Reported) -> tuple[object, ...]:
    spec, judge = run.spec, run.tally.judge
    return (
        label, run.path, spec.id, spec.editor.name, spec.dataset.component.name, spec.model.id, plan_words(spec),
        spec.plan.size, spec.seed, _judge(judge) if judge is not None else "",
    )  # fmt: skip


def _judge(judge: Component) -> str:
    return component_words(judge) + (f", model {judge.model.id}" if judge.model is not None else "")


def _warning(run: Reported) -> str:
    """Return the warning for every number that depends on the judge."""
    return agreement_warning(run.tally.judge) if run.tally.judge is not None else ""


def _cells(score: MetricScore) -> Iterator[object]:
    ends = score.interval
    yield from (ANSWERS_TITLE if score.metric == NO_METRIC else score.metric, score.aspect, score.phase, score.style)
    yield from ("; ".join(score.tags), "; ".join(score.tags.values()), score.value, score.measure, score.n)
    yield from (ends.low, ends.high, ends.level) if ends is not None else (None, None, None)
    yield from (score.skipped, "; ".join(f"{n} x {why}" for why, n in score.skipped_because.items()), score.note)


def _inert(cell: object) -> object:
    """Return a text in one line, escaped if it is a formula. None becomes empty; other values are unchanged."""
    if not isinstance(cell, str):
        return "" if cell is None else cell
    return harmless(one_line(cell, LONG))
