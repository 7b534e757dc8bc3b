"""Rank the runs in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from ke_core.app import (
    AFTER,
    NO_MODEL,
    SCORES,
    TESTED,
    Catalog,
    DataRef,
    MetricColumn,
    ModelRef,
    Reported,
    load_report,
    metric_columns,
    one_line,
    option_text,
    run_labels,
    runs_in,
    score_warnings,
    shown_unit,
)
from ke_core.plugin import BadConfig, BadRun, MetricScore
from ke_plugin_reproduce.ranks import Rank, ranks
from ke_plugin_reproduce.sweep import failed_in

REASON = 100  # characters of an error


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
    """The runs of one dataset and model, best first. ``alike``: True if all runs have the same cases.

    ``settings``: how dataset and model differ from those of a table that has the same title otherwise.
    """

    dataset: DataRef
    model: ModelRef
    column: MetricColumn
    places: tuple[LeaderboardEntry, ...]
    less: bool = False
    alike: bool = True
    settings: str = ""


@frozen(kw_only=True)
class Leaderboard:
    """Rank tables and the runs that are in none of them.

    ``open``: unfinished runs. ``failed``: cells of a sweep with the reason. ``damaged``: run folders with the reason.
    ``unranked``: finished runs without the score that others are ranked by, with the reason.
    """

    tables: tuple[LeaderboardTable, ...]
    open: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(factory=dict)
    damaged: Mapping[str, str] = field(factory=dict)
    unranked: Mapping[str, str] = field(factory=dict)
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
    groups = [*_groups(runs)]
    made = [ranked(*group, by=by) for group in groups]
    tables = [table for table in made if table is not None]
    if not tables:
        known = dict.fromkeys(f"{column.metric}.{column.aspect}" for column in metric_columns(runs))
        raise BadConfig(f"no run has a score for {by or 'any column'}", hint=f"available: {', '.join(known)}")
    placed = {place.path for table in tables for place in table.places}
    unranked = {
        str(Path(run.path).relative_to(root)): f"no score for {table.column.heading if table else by or 'any column'}"
        for (_dataset, _model, group), table in zip(groups, made, strict=True)
        for run in group
        if run.path not in placed
    }
    return Leaderboard(
        tables=tuple(with_settings(tables)),
        open=tuple(unfinished),
        failed=failed,
        damaged=damaged,
        unranked=unranked,
        warnings=tuple(score_warnings(runs)),
    )


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
    if not rows:
        return None
    rows.sort(key=lambda row: (row[2].value or 0.0) if less else -(row[2].value or 0.0))
    order = ranks([score.interval for _name, _style, score, _run in rows], more_is_better=not less)
    samples = {_sample(run) for _name, _style, _score, run in rows}
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


def _sample(run: Reported) -> tuple[int | None, ...]:
    """Return the settings that determine which cases are used.

    In datasets with published parts, the number of edited cases selects the part, and other cases are excluded.
    """
    plan = run.spec.plan
    published = plan.protocol == "sample" and any(TESTED in score.tags for score in run.scores)
    return (
        plan.limit,
        plan.eval_limit,
        run.spec.seed if plan.limit or plan.eval_limit else None,
        plan.size if published else None,
    )


def table_title(found: LeaderboardTable) -> str:
    """Return dataset, model, column and unit, and the settings if another table has the same."""
    values = " in ".join(filter(None, ("value", shown_unit(found.places[0].score.measure))))
    better = ", less is better" if found.less else ""
    return f"{found.dataset.component.name} on {model_name(found)}: {found.column.heading}, {values}{better}" + (
        f" ({found.settings})" if found.settings else ""
    )


def with_settings(tables: Sequence[LeaderboardTable]) -> Sequence[LeaderboardTable]:
    """Return the tables. Those with the same title get the settings in which they differ."""
    for facts in (_options, _digests):
        titles = list(map(table_title, tables))
        alike = {
            title: [facts(one) for one, its in zip(tables, titles, strict=True) if its == title] for title in titles
        }
        words = [
            ", ".join(
                f"{name}={value}" for name, value in facts(table).items()
                if any(other.get(name) != value for other in alike[title])
            )
            for table, title in zip(tables, titles, strict=True)
        ]  # fmt: skip
        tables = [
            evolve(table, settings=", ".join(filter(None, (table.settings, own))))
            for table, own in zip(tables, words, strict=True)
        ]
    return tables


def _options(table: LeaderboardTable) -> dict[str, str]:
    """Return the settings of dataset and model that a user chooses."""
    model = table.model
    chosen = {name: option_text(value, name) for name, value in table.dataset.component.options.items()}
    chosen |= {"source": model.source, "revision": model.revision, "dtype": model.dtype, "base_url": model.base_url}
    return {**chosen, "chat": option_text(model.chat, "chat")}


def _digests(table: LeaderboardTable) -> dict[str, str]:
    """Return the digests of dataset and model, and the version of the dataset's plugin."""
    component = table.dataset.component
    digests = {"data": table.dataset.sha256, "code": component.code, "weights": table.model.digest}
    return {"version": component.version, **{name: digest[:8] for name, digest in digests.items()}}


def model_name(found: LeaderboardTable) -> str:
    """Return the id of the model."""
    return "no model" if found.model == NO_MODEL else found.model.id
