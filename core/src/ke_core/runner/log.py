"""Write the log of a run: start, versions, phases, warnings, failures, end."""

from __future__ import annotations

import os
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from ke_core.results.folder import RunFolder, environment
from ke_core.runner.recorder import Recorder
from ke_core.runner.run import ResolvedRun
from ke_core.runner.usage import Phase, measured_phase
from ke_core.spec.errors import KEError
from ke_core.spec.protocols import Progress

DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
LISTED = 20  # reasons


@contextmanager
def logged(run: ResolvedRun, folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Log the work of a process on a run. The phases of the preparation come first.

    The entries of the mapping are written to the last line. Python's warnings are logged once each.
    """
    folder.log("start", run=folder.id, versions=_versions(run), cpus=os.cpu_count())
    for over in run.before:
        folder.log("phase", **over.line())
    started = perf_counter()
    facts: dict[str, Any] = {}
    ended = DONE
    try:
        with _warnings_too(folder):
            yield facts
    except KeyboardInterrupt:
        ended = INTERRUPTED
        raise
    except BaseException as error:
        ended = FAILED
        folder.log("failure", what=type(error).__name__, message=str(error), **_where(error))
        raise
    finally:
        folder.log("end", ended=ended, seconds=round(perf_counter() - started, 3), **facts)


@contextmanager
def phase(
    folder: RunFolder,
    name: str,
    model: object = None,
    *,
    progress: Progress | None = None,
    facts: Callable[[], Mapping[str, Any]] = dict,
) -> Iterator[None]:
    """Measure a phase of a run and log it, also if it fails. ``progress`` shows its name.

    ``facts`` returns further fields of the log entry.
    """
    made = Phase(name=name)
    try:
        with measured_phase(name, model, progress) as made:
            yield
    finally:
        folder.log("phase", **made.line(), **facts())


def log_losses(folder: RunFolder, recorder: Recorder) -> None:
    """Log what was skipped or failed, by reason, the most frequent reasons first."""
    batches = recorder.batches.values()
    for event, what, reasons in (
        ("failure", "batches failed", Counter(batch.failed for batch in batches if batch.failed)),
        ("warning", "edits refused", Counter(reason for batch in batches for reason in batch.refused.values())),
        ("warning", "cases skipped", Counter(reason for batch in batches for reason in batch.skipped.values())),
        ("failure", "replies failed", recorder.reasons),
    ):
        for reason, count in reasons.most_common(LISTED):
            folder.log(event, what=what, message=reason, count=count)
        if len(reasons) > LISTED:
            rest = reasons.total() - sum(count for _reason, count in reasons.most_common(LISTED))
            folder.log(event, what=what, message="for other reasons: see the records", count=rest)


def _versions(run: ResolvedRun) -> dict[str, str]:
    """Return the versions of Python, of the libraries, and of the plugins of the run."""
    spec = run.spec
    parts = (spec.editor, spec.dataset.component, run.judging.component, *(each.component for each in run.measures))
    return environment() | {part.distribution: part.version for part in parts if part.distribution}


def _where(error: BaseException) -> dict[str, Any]:
    """Return the traceback of a bug, or the hint of an error that the user can fix."""
    if isinstance(error, KEError):
        return {"hint": error.hint}
    return {"traceback": "".join(traceback.format_exception(error))}


@contextmanager
def _warnings_too(folder: RunFolder) -> Iterator[None]:
    with warnings.catch_warnings():
        shown, seen = warnings.showwarning, set[str]()

        def show(*given: Any, **named: Any) -> None:
            message, category, filename, line = given[:4]
            if str(message) not in seen:
                seen.add(str(message))
                folder.log("warning", what=category.__name__, message=str(message), source=f"{filename}:{line}")
            shown(*given, **named)

        warnings.showwarning = show
        yield
