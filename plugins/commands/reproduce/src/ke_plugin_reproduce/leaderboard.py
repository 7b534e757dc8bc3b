"""Rank the runs in a folder. Runs with overlapping intervals share a range of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen
from rich.console import Group, RenderableType

from ke_core.app import (
    AFTER,
    NO_MODEL,
    SCORES,
    TESTED,
    WARNING,
    Catalog,
    DataRef,
    MetricColumn,
    ModelRef,
    Reported,
    format_interval,
    format_score,
    judge_warnings,
    literal,
    load_report,
    metric_columns,
    one_line,
    plain_table,
    prompt_name,
    run_labels,
    runs_in,
    shown_unit,
    titled,
)
from ke_core.plugin import BadConfig, BadRun, Interval, MetricScore
from ke_plugin_reproduce.sweep import failed_in

REASON = 100  # characters of an error
HEADINGS = ("rank", "run", "prompt", "95% interval", "n")
"""The headings. The column that runs are ranked by comes after the third."""
OWN_EDITS_NOTE = "given own edits: the editor gets each question's own edits, which a deployed editor does not know."
SKIPPED_NOTE = "skipped: observations without a value; n does not include them. ke report RUN --json lists the reasons."
COLORS = {"hint": "", WARNING: "yellow", "error": "red"}


@frozen(kw_only=True)
class LeaderboardEntry:
    """A run with one prompt style, and its rank. ``own_edits``: the editor was given each question's own edits."""

    rank: Rank
    name: str
    style: str
    score: MetricScore
    path: str
    own_edits: bool = False


@frozen(kw_only=True)
class LeaderboardTable:
    """The runs of one dataset and model, best first. ``alike``: True if all runs have the same cases."""

    dataset: DataRef
    model: ModelRef
    column: MetricColumn
    places: tuple[LeaderboardEntry, ...]
    less: bool = False
    alike: bool = True


@frozen(kw_only=True)
class Leaderboard:
    """Rank tables and the runs that are in none of them.

    ``open``: unfinished runs. ``failed``: cells of a sweep with the reason. ``damaged``: run folders with the reason.
    """

    tables: tuple[LeaderboardTable, ...]
    open: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(factory=dict)
    damaged: Mapping[str, str] = field(factory=dict)
    warnings: tuple[str, ...] = ()


def leaderboard(root: Path, catalog: Catalog, *, by: str = "") -> Leaderboard:
    """Rank the finished runs in ``root`` by an aspect or ``metric.aspect``. The default is the first column.

    Raises BadRun if there is no finished run, BadConfig if no run has a score for ``by``.
    """
    runs, damaged, unfinished = _read(root, catalog)
    failed = {one.name: one.error for one in failed_in(root)}
    if not runs:
        raise BadRun(
            f"there is no finished run in {root}",
            hint=f"ke runs {root} lists its runs" if damaged or unfinished else "ke sweep and ke eval create runs",
            details=(
                *(f"{name} failed: {one_line(why, REASON)}" for name, why in failed.items()),
                *(f"{name} {_waits_for(root / name)}" for name in unfinished),
            ),
        )
    tables = [table for group in _groups(runs) if (table := ranked(*group, by=by)) is not None]
    if not tables:
        known = dict.fromkeys(f"{column.metric}.{column.aspect}" for column in metric_columns(runs))
        raise BadConfig(f"no run has a score for {by or 'any column'}", hint=f"available: {', '.join(known)}")
    return Leaderboard(
        tables=tuple(tables),
        open=tuple(unfinished),
        failed=failed,
        damaged=damaged,
        warnings=tuple(judge_warnings(runs)),
    )


def leaderboard_page(found: Leaderboard) -> Group:
    """Return the tables and notes for the terminal."""
    parts: list[RenderableType] = [_drawn(table) for table in found.tables]
    parts += [literal(words, COLORS[kind]) for words, kind in notes(found)]
    return Group(*parts)


def notes(found: Leaderboard) -> Iterator[tuple[str, str]]:
    """Yield the lines below the tables, each with its kind: hint, warning or error."""
    if any(place.rank.tied for table in found.tables for place in table.places):
        yield ("A rank such as 2-4 means that 95% intervals overlap. ke compare pairs the same questions.", "hint")
    places = [place for table in found.tables for place in table.places]
    if any(place.own_edits for place in places):
        yield OWN_EDITS_NOTE, "hint"
    if any(place.score.skipped for place in places):
        yield SKIPPED_NOTE, "hint"
    if not all(table.alike for table in found.tables):
        yield "Different cases: --limit, --eval-limit or seeds differ between the runs of a table.", WARNING
    yield from ((f"{WARNING}: {words}", WARNING) for words in found.warnings)
    yield from ((f"not finished: {name}", WARNING) for name in found.open)
    yield from ((f"failed: {name}: {one_line(why, REASON)}", "error") for name, why in found.failed.items())
    yield from ((f"damaged: {name}: {one_line(why, REASON)}", "error") for name, why in found.damaged.items())


def _read(root: Path, catalog: Catalog) -> tuple[list[Reported], dict[str, str], list[str]]:
    runs: list[Reported] = []
    damaged: dict[str, str] = {}
    unfinished: list[str] = []
    for path, found in runs_in(root) if root.is_dir() else ():
        name = str(path.relative_to(root))
        try:
            if isinstance(found, BadRun):
                raise found
            if not found.finished:
                unfinished.append(name)
                continue
            runs.append(load_report(found, catalog))
        except BadRun as error:
            damaged[name] = str(error)
    return runs, damaged, unfinished


def _waits_for(path: Path) -> str:
    """Return why a run is not ranked and what to do."""
    scored = (path / SCORES).exists()
    return "is not finished: run the same command again" if scored else f"has not been scored: ke score {path}"


def _groups(runs: Sequence[Reported]) -> Iterator[tuple[DataRef, ModelRef, list[Reported]]]:
    """Yield the runs that are ranked together. Runs without a model are listed with every model."""
    seen: list[tuple[DataRef, ModelRef]] = []
    for run in runs:
        key = (run.spec.dataset, run.spec.model)
        if key not in seen:
            seen.append(key)
    for dataset, model in seen:
        with_models = any(other == dataset and one != NO_MODEL for other, one in seen)
        if model == NO_MODEL and with_models:
            continue
        yield (
            dataset,
            model,
            [run for run in runs if run.spec.dataset == dataset and run.spec.model in (model, NO_MODEL)],
        )


def _given(run: Reported) -> str:
    """Return what a method was given that a deployed one does not know, in parentheses."""
    if run.spec.oracle:
        return " (given the answers)"
    return " (given own edits)" if run.spec.own_edits else ""


def ranked(dataset: DataRef, model: ModelRef, runs: list[Reported], *, by: str) -> LeaderboardTable | None:
    """Return the runs in order, each prompt style of a run separately. None if no run has a score for ``by``."""
    column = next((one for one in metric_columns(runs) if by in ("", one.aspect, f"{one.metric}.{one.aspect}")), None)
    if column is None:
        return None
    less = any(column.place in run.less for run in runs)
    rows = [
        (name + _given(run), style, score, run)
        for name, run in zip(run_labels(runs), runs, strict=True)
        for style in run.styles(AFTER)
        if (score := _score(run, column, style)) is not None and score.value is not None
    ]
    rows.sort(key=lambda row: (row[2].value or 0.0) if less else -(row[2].value or 0.0))
    order = ranks([score.interval for _name, _style, score, _run in rows], more_is_better=not less)
    samples = {(run.spec.plan.limit, run.spec.plan.eval_limit, _drawn_with(run)) for run in runs}
    return LeaderboardTable(
        dataset=dataset,
        model=model,
        column=column,
        places=tuple(
            LeaderboardEntry(
                rank=rank, name=name, style=style, score=score, path=run.path, own_edits=run.spec.own_edits
            )
            for rank, (name, style, score, run) in zip(order, rows, strict=True)
        ),
        less=less,
        alike=len(samples) == 1,
    )


def _score(run: Reported, column: MetricColumn, style: str) -> MetricScore | None:
    """Return the score over all cases, without training cases if the dataset's published score excludes them."""
    return run.score(column, AFTER, style, (TESTED, "yes")) or run.score(column, AFTER, style)


def _drawn_with(run: Reported) -> int | None:
    """Return the seed if it determines which cases are used."""
    return run.spec.seed if run.spec.plan.limit or run.spec.plan.eval_limit else None


def _drawn(found: LeaderboardTable) -> Group:
    shown = plain_table(*HEADINGS[:3], found.column.heading, *HEADINGS[3:])
    for at in (0, 3, 4, 5):
        shown.columns[at].justify = "right"
    for place in found.places:
        count = f"{place.score.n:,}" + (f" ({place.score.skipped:,} skipped)" if place.score.skipped else "")
        cells = (
            rank_words(place),
            place.name,
            prompt_name(place.style),
            format_score(place.score),
            format_interval(place.score) or "none",
            count,
        )
        shown.add_row(*map(literal, cells))
    return titled(table_title(found), shown)


def table_title(found: LeaderboardTable) -> str:
    """Return dataset, model, column and unit."""
    values = " in ".join(filter(None, ("value", shown_unit(found.places[0].score.measure))))
    better = ", less is better" if found.less else ""
    return f"{found.dataset.component.name} on {model_name(found)}: {found.column.heading}, {values}{better}"


def model_name(found: LeaderboardTable) -> str:
    """Return the id of the model."""
    return "no model" if found.model == NO_MODEL else found.model.id


def rank_words(place: LeaderboardEntry) -> str:
    """Return a rank as ``2`` or ``2-4``."""
    return str(place.rank.best) if not place.rank.tied else f"{place.rank.best}-{place.rank.worst}"


@frozen(kw_only=True)
class Rank:
    """The range of possible ranks, from 1 on. Both ends are equal if no other interval overlaps."""

    best: int
    worst: int

    @property
    def tied(self) -> bool:
        """True if another interval overlaps."""
        return self.best != self.worst


def ranks(intervals: Sequence[Interval | None], *, more_is_better: bool = True) -> list[Rank]:
    """Return the rank of each interval, in order. A missing interval overlaps all others.

    One is better than another only if their intervals do not overlap (touching ends overlap). That is stricter than a
    test of the difference, so entries of one rank may differ significantly.
    """
    ends = [_ends(one, more_is_better=more_is_better) for one in intervals]
    found = []
    for low, high in ends:
        above = sum(other_low > high for other_low, _high in ends)
        below = sum(other_high < low for _low, other_high in ends)
        found.append(Rank(best=1 + above, worst=len(ends) - below))
    return found


def _ends(one: Interval | None, *, more_is_better: bool) -> tuple[float, float]:
    """Return low and high, negated if less is better."""
    if one is None:
        return float("-inf"), float("inf")
    return (one.low, one.high) if more_is_better else (-one.high, -one.low)
