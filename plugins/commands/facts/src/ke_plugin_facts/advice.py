"""What to expect of an editor on this model: efficacy, time and memory, from recorded runs of ``ke eval``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from ke_core.app import RunFolder, read_scores, runs_in
from ke_core.plugin import BadRun, MetricScore

EFFICACY = ("efficacy", "edit-wise")
"""Aspects of ``classic`` and ``multi-hop``: the fraction of edits whose new object is generated."""


@frozen(kw_only=True)
class RecordedEditor:
    """One run of an editor with this model. ``together``: edits made at once; None: all.

    ``seconds``: per edit. ``memory`` and ``device_memory``: additional MiB of the process and on the GPU while edits
    are made, mean of the batches. They are None if the run has no metric ``cost``, or did not measure them.
    """

    editor: str
    run: str
    efficacy: float
    n: int
    together: int | None
    seconds: float | None
    memory: float | None = None
    device_memory: float | None = None


def recorded_editors(root: Path, digest: str) -> tuple[RecordedEditor, ...]:
    """Return the scored runs in ``root`` of the model with this digest, the best first."""
    found = [
        one for path, folder in runs_in(root) if isinstance(folder, RunFolder) for one in _of(path, folder, digest)
    ]
    return tuple(sorted(found, key=lambda one: -one.efficacy))


def _of(path: Path, folder: RunFolder, digest: str) -> Iterator[RecordedEditor]:
    spec = folder.spec
    if spec.model.digest != digest or not folder.finished:
        return
    try:
        scores = [score for score in read_scores(folder).scores if score.phase == "after" and not score.tags]
    except BadRun:
        return  # not scored yet
    efficacy = next((one for aspect in EFFICACY for one in scores if one.aspect == aspect and one.n), None)
    if efficacy is not None and efficacy.value is not None:
        yield RecordedEditor(
            editor=spec.editor.name,
            run=str(path),
            efficacy=efficacy.value,
            n=efficacy.n,
            together=spec.plan.size,
            seconds=_value(scores, "seconds"),
            memory=_value(scores, "memory"),
            device_memory=_value(scores, "device-memory"),
        )


def _value(scores: Sequence[MetricScore], aspect: str) -> float | None:
    return next((one.value for one in scores if one.aspect == aspect), None)


def expectation(runs: Sequence[RecordedEditor], editor: str, edits: int, root: Path) -> list[str]:
    """Return sentences: what to expect of ``editor`` for a number of edits, and which editor was the best."""
    own = [one for one in runs if one.editor == editor]
    if not own:
        lines = [f"Efficacy, time and memory of {editor}: not known ({root} has no scored run of it with this model)."]
    else:
        near = min(own, key=lambda one: abs((one.together or one.n) - edits))
        seconds = "not known, because the run has no metric cost"
        if near.seconds is not None:
            seconds = f"{near.seconds * edits:.0f} s for {edits} edits ({near.run})"
        lines = [
            f"Expected of {editor}: efficacy {near.efficacy:.2f} (n {near.n}, {_together(near)}).",
            f"Expected time: {seconds}.",
            f"Expected additional memory: {_memory(near)}.",
        ]
    best = runs[0] if runs else None
    if best is not None and best.editor != editor and best.efficacy > max((one.efficacy for one in own), default=0.0):
        lines.append(f"Best recorded: {best.editor}, efficacy {best.efficacy:.2f} (n {best.n}, {_together(best)}).")
    return lines


def _memory(one: RecordedEditor) -> str:
    measured = [(one.memory, "MiB"), (one.device_memory, "MiB on the GPU")]
    known = [f"{value:,.0f} {unit}" for value, unit in measured if value is not None]
    return " and ".join(known) or "not known, because the run did not measure it with the metric cost"


def _together(one: RecordedEditor) -> str:
    return "all at once" if one.together is None else f"{one.together} at once"
