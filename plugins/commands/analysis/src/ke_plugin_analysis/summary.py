"""Summarize the scores of runs in one paragraph: edits that succeeded, their consequences, and the baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ke_core.app import Reported, edited_rows, metric_columns, prompt_name
from ke_core.plugin import SHARE

BASELINES: Mapping[str, str] = {"none": "Without edits", "parrot": "Baseline parrot", "oracle": "Upper bound oracle"}
SUCCESS: Mapping[str, str] = {
    "edit-wise": "edits succeeded",
    "edit-success": "edits succeeded",
    "efficacy": "edits succeeded",
    "efficacy-probability": "edits made the new object more probable",
}
"""Aspects that measure whether edits succeeded, in order of preference, each with the words after the counts."""
FOLLOWED: Mapping[str, str] = {
    "multi-hop": "multi-hop questions right",
    "correct-flip": "questions flipped to the counterfactual",
    "any-exact": "questions answered with the whole new set",
    "portability": "questions that follow from the edit right",
    "paraphrase": "paraphrases right",
    "paraphrase-probability": "paraphrases follow",
}
"""Aspects that measure the consequences of edits, likewise."""


def summary_sentence(runs: Sequence[Reported]) -> str:
    """Return the summary. Empty if no run has a score that it could name."""
    success, followed = (_first_measured(runs, words) for words in (SUCCESS, FOLLOWED))
    named = {name: [run for run in runs if run.spec.editor.name == name] for name in BASELINES}
    methods = [run for run in runs if run.spec.editor.name not in BASELINES]
    parts = []
    for run in methods:
        counted = [*_counts(run, success, SUCCESS), *_counts(run, followed, FOLLOWED)]
        parts += [f"{run.spec.editor.name}: {'; '.join(counted)}"] if counted else []
    aspect, words = (followed, FOLLOWED) if followed else (success, SUCCESS)
    parts += [
        f"{label}: {counts}"
        for name, label in BASELINES.items()
        for run in named[name]
        for counts in _counts(run, aspect, words)
    ]
    return ". ".join(parts) + "." if parts else ""


def _first_measured(runs: Sequence[Reported], words: Mapping[str, str]) -> str:
    """Return the first aspect that any of the runs has as a column."""
    measured = {column.aspect for column in metric_columns(runs) if not column.table}
    return next((aspect for aspect in words if aspect in measured), "")


def _counts(run: Reported, aspect: str, words: Mapping[str, str]) -> Iterator[str]:
    """Yield ``5 of 6 edits succeeded``, with further prompts in parentheses; nothing without a score."""
    counted = {style: f"{round(value * n):,} of {n:,}" for style, value, n in _scores(run, aspect)}
    if counted:
        first, *others = counted
        rest = ", ".join(f"{prompt_name(style)}: {counted[style]}" for style in others)
        yield f"{counted[first]} {words[aspect]}" + (f" ({rest})" if rest else "")


def _scores(run: Reported, aspect: str) -> Iterator[tuple[str, float, int]]:
    """Yield style, value and n after editing."""
    for row in edited_rows([run]):
        for column in metric_columns([run]):
            score = row.score(column) if column.aspect == aspect and not column.table else None
            if score is not None and score.value is not None and score.measure == SHARE:
                yield row.style, score.value, score.n
