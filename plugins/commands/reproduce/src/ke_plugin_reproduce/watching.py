"""The states of the runs in a folder, read from their files, whichever process or machine computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ke_core.app import LOG, RECORDS, RunFolder, runs_in, tally_of
from ke_core.plugin import BadRun, loads
from ke_plugin_reproduce.launcher import FAILED, JOBS
from ke_plugin_reproduce.launching import IN_USE
from ke_plugin_reproduce.sweep import summary_in

ACTIVE = ("waiting", "submitted", "running")
"""States that change without a new command."""


@frozen(kw_only=True)
class WatchedRun:
    """The state of one run. ``age``: seconds since its last record. ``why``: the reason of a failure.

    States: waiting (not started), submitted (its job is queued or loads the model), running (or killed, if ``age``
    grows), interrupted, failed, done, damaged.
    """

    name: str
    state: str
    done: int = 0
    total: int = 0
    failures: int = 0
    age: float | None = None
    why: str = ""


@define
class Watcher:
    """Reads the states of the runs in ``root``. Finished runs are read once."""

    root: Path
    _finished: dict[Path, WatchedRun] = field(factory=dict)

    def look(self) -> list[WatchedRun]:
        """Return the states: the cells of a sweep in their order, then other runs."""
        cells = {self.root / str(cell["folder"]): cell for cell in summary_in(self.root)}
        names = {path: str(cell["name"]) for path, cell in cells.items()}
        found = {path: self._run(path, names.get(path, str(path.relative_to(self.root))), run)
                 for path, run in runs_in(self.root)}  # fmt: skip
        failures = {path: str(cell.get("error", "")) for path, cell in cells.items() if cell["status"] == "failed"}
        for file in sorted(self.root.rglob(f"{JOBS}/*.json")):
            path = file.parents[1] / file.stem
            names.setdefault(path, str(path.relative_to(self.root)))
            found.setdefault(path, WatchedRun(name=names[path], state="submitted"))
            failures |= _failure(file.with_suffix(FAILED), path)
        for path, why in failures.items():
            if path not in found or found[path].state not in ("failed", "done"):
                found[path] = WatchedRun(name=names[path], state="failed", why=why)
        for path in cells:
            found.setdefault(path, WatchedRun(name=names[path], state="waiting"))
        return [found[path] for path in dict.fromkeys((*cells, *found))]

    def _run(self, path: Path, name: str, run: RunFolder | BadRun) -> WatchedRun:
        if path in self._finished:
            return self._finished[path]
        try:
            if isinstance(run, BadRun):
                raise run
            found = _watched(name, run)
        except BadRun as error:
            return WatchedRun(name=name, state="damaged", why=str(error))
        if found.state == "done":
            self._finished[path] = found
        return found


def _failure(file: Path, run: Path) -> dict[Path, str]:
    """Return the saved error of a job by its run folder. Empty without one, or if another process has used it since."""
    try:
        error = str(loads(file.read_bytes())["error"])
        log = run / LOG
        later = log.exists() and log.stat().st_mtime > file.stat().st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {} if later or error.startswith(IN_USE) else {run: error}


def _watched(name: str, run: RunFolder) -> WatchedRun:
    """Return the state of a run. Raises BadRun for damaged records."""
    events = run.logged()
    state = "done" if run.finished else _state(events)
    counted = tally_of(run)
    return WatchedRun(
        name=name,
        state=state,
        done=counted.done,
        total=counted.total,
        failures=counted.failed,
        age=None if state != "running" else _age(run.path),
        why=next(_reasons(events), "") if state == "failed" else "",
    )


def _state(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the state after the last start or end of a process."""
    last = next((event for event in reversed(events) if event["event"] in ("start", "end")), {"event": "start"})
    if last["event"] == "start":
        return "running"
    what = next((event.get("what") for event in reversed(events) if event["event"] == "failure"), "")
    if last.get("ended") == "failed" and what == "SystemExit":  # submitit ends a job that it has requeued
        return "submitted"
    return {"failed": "failed", "interrupted": "interrupted"}.get(str(last.get("ended")), "incomplete")


def _reasons(events: list[Mapping[str, Any]]) -> Iterator[str]:
    for event in reversed(events):
        if event["event"] == "failure":
            yield str(event.get("message", ""))


def _age(path: Path) -> float | None:
    try:
        return max(0.0, datetime.now(UTC).timestamp() - (path / RECORDS).stat().st_mtime)
    except OSError:
        return None
