"""The page of ``ke runs show``: specification, progress, phases, and failures of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ke_core.app import (
    IMPORTED,
    PART,
    SCORES,
    Catalog,
    Reported,
    RunFolder,
    Tally,
    duration,
    literal,
    one_line,
    plain_table,
    plan_words,
    read_report,
    spent_words,
    tally_of,
    whole_lines,
    without_model,
)
from ke_core.plugin import BadRun
from ke_plugin_analysis.footer import component_words, model_words
from ke_plugin_analysis.tables import score_tables

GIB = 2**30
LISTED = 10  # reasons of a kind
REASON = 160  # characters of one


def progress_page(folder: RunFolder, catalog: Catalog) -> Group:
    """Return the page for the terminal. Raises BadRun for damaged records."""
    lines = folder.logged()
    run, scores = _scores(folder, catalog)
    counted = tally_of(folder) if run is None else run.tally
    parts: list[RenderableType] = [_facts(folder), literal(""), _progress(folder, lines, counted)]
    parts += _resuming(folder)
    parts += _waiting(folder)
    parts += _losses(counted, lines)
    if phases := [line for line in lines if line["event"] == "phase"]:
        parts += [literal(""), _phases(phases)]
    return Group(*parts, *scores)


def _facts(folder: RunFolder) -> Table:
    spec = folder.spec
    shown = plain_table("run", str(folder.path))
    facts = {
        "id": folder.id,
        "created": folder.created,
        "editor": component_words(spec.editor),
        "dataset": f"{component_words(spec.dataset.component)}, content {spec.dataset.sha256[:12]}",
        "model": "none" if without_model(spec) else model_words(spec.model),
        "plan": f"{plan_words(spec)}, seed {spec.seed}",
        "prompt": ", ".join(spec.styles) + f"; edited fact as a {spec.edited_form}",
        "gold material": ", ".join(spec.oracle),
        "own edits": "the editor gets each question's own edits" if spec.own_edits else "",
        "further requests": ", ".join(request.component.name for request in spec.requests),
        "made with": ", ".join(f"{name} {version}" for name, version in folder.environment.items()),
    }
    for name, words in facts.items():
        if words:
            shown.add_row(name, literal(words))
    return shown


def _scores(folder: RunFolder, catalog: Catalog) -> tuple[Reported | None, list[RenderableType]]:
    """Return the report of the run and its first table, or the reason why its scores cannot be read."""
    if not (folder.path / SCORES).exists():
        return None, []
    try:
        run = read_report(folder, catalog)
    except BadRun as error:
        return None, [literal(f"scores: {error.message}", "red")]
    return run, [*score_tables([run])[:1]]


def _progress(folder: RunFolder, lines: list[Mapping[str, Any]], counted: Tally) -> RenderableType:
    cases = f"{counted.done}/{counted.total} cases" if counted.total else f"{counted.done} cases"
    judge = f"judged by {counted.judge.name}" if counted.judge else "not judged"
    scored = "scored" if (folder.path / SCORES).exists() else "not scored"
    state = _state(folder, lines, counted)
    words = f"{state}: {cases}, {counted.edits:,} edits, {counted.answers:,} answers, {judge}, {scored}"
    words += f"; server usage: {spent_words(counted.spent)}" if counted.spent else ""
    return literal(words, "bold")


def _resuming(folder: RunFolder) -> Iterator[RenderableType]:
    """Yield how to resume the run. Its command line is not recorded."""
    if not folder.complete and folder.spec.model.source != IMPORTED:
        yield literal("to resume: start the same command again", "dim")


def _waiting(folder: RunFolder) -> Iterator[RenderableType]:
    """Yield a line about records of other processes that are not merged yet."""
    if lines := sum(1 for part in folder.parts() for _line in whole_lines(part)):
        words = f"{lines:,} lines in {PART.format(rank='*')} are not merged yet: start the same run again"
        yield literal(words, "yellow")


def _state(folder: RunFolder, lines: list[Mapping[str, Any]], counted: Tally) -> str:
    if folder.finished:
        return "finished"
    last = next((line for line in reversed(lines) if line["event"] in ("start", "end")), None)
    if last is None:
        if folder.spec.model.source == IMPORTED:
            return "imported"
        return "without a log" if counted.done or counted.edits or counted.answers else "not started"
    if last["event"] == "start":
        return f"running since {last['at']}, or killed"
    return f"{last.get('ended')} at {last['at']}"


def _losses(counted: Tally, lines: list[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for what, reasons in (
        ("edits refused", counted.refused),
        ("cases skipped", counted.skipped),
        ("replies failed", counted.failures),
    ):
        for reason, count in reasons.most_common(LISTED):
            yield literal(f"{what}: {count:,} x {reason}", "yellow")
    own = [line for line in lines if line["event"] in ("failure", "warning") and "count" not in line]
    for line in own[-LISTED:]:
        words = one_line(f"{line.get('what')}: {line.get('message')}", REASON)
        yield literal(f"{line['at']} {line['event']}: {words}", "red" if line["event"] == "failure" else "yellow")


def _phases(lines: list[Mapping[str, Any]]) -> Table:
    """Return a table of the phases, process by process."""
    shown = plain_table("phase", "time", "processor time", "peak memory", "peak on device", "")
    for column in shown.columns[1:5]:
        column.justify = "right"
    process = None
    for line in lines:
        if process not in (None, line.get("process")):
            shown.add_section()
        process = line.get("process")
        edits = f"{line['edits']:,} edits in {duration(line.get('edit_seconds', 0.0))}" if line.get("edits") else ""
        ended = "" if line.get("ended") == "done" else f"ended by {line.get('ended')}"
        shown.add_row(
            literal(line.get("phase")),
            duration(line.get("seconds", 0.0)),
            duration(line.get("cpu_seconds", 0.0)),
            _memory(line.get("peak_host_bytes")),
            _memory(line.get("peak_device_bytes")),
            literal(", ".join(words for words in (edits, ended) if words)),
        )
    return shown


def _memory(size: int | None) -> str:
    return "-" if size is None else f"{size / GIB:,.2f} GiB"
