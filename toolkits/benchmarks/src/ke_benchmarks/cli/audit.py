"""``ke audit``: find and fix errors in a benchmark."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ke_benchmarks.audit import RULES, Audit, agreement, as_rule, fix, select
from ke_benchmarks.cli.datasets import resolve_datasets
from ke_benchmarks.files.cases import export
from ke_core.app import App, ResolvedComponent, completion, duration, err, out
from ke_core.app import options as shared
from ke_core.plugin import Case, to_json, write_atomic

FILE = click.Path(dir_okay=False, path_type=Path)


def numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Parse ``1,100``."""
    parts = [part.strip() for part in value.split(",")] if value else []
    if not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,100,1000")
    return tuple(map(int, parts))


@click.command("audit")
@shared.dataset_argument
@shared.section(
    "Audit",
    click.option(
        "--num-edited",
        callback=numbers,
        default="",
        metavar="N,N",
        help="Numbers of cases edited at a time. [default: the published ones, else 1,100,1000 and all]",
    ),
    click.option("--seed", default=100, show_default=True, help="Random seed of the edited cases."),
    click.option(
        "--rule",
        default="question",
        show_default=True,
        metavar="|".join(RULES),
        help="Rule that decides whether an edit and a hop concern the same fact.",
    ),
    click.option(
        "--corrected",
        default="",
        metavar="NAME",
        shell_complete=completion.component("dataset"),
        help="Compare the missing information with a dataset with corrected questions.",
    ),
    shared.component_options,
    shared.data_dir,
)
@shared.section(
    "Output",
    click.option("--cases", "with_cases", is_flag=True, help="List every flagged case with the reason."),
    shared.json_option,
    click.option(
        "--fix",
        "fix_to",
        type=FILE,
        metavar="FILE",
        help="Write a dataset without conflicting edits and duplicates, and a log of the changes next to it.",
    ),
    click.option(
        "--select",
        "select_to",
        type=FILE,
        metavar="FILE",
        help="Write as many cases as possible whose edits do not affect one another.",
    ),
    click.option("--force", is_flag=True, help="Replace existing files."),
)
@click.pass_obj
def command(
    app: App,
    name: str,
    *,
    num_edited: tuple[int, ...],
    seed: int,
    rule: str,
    with_cases: bool,
    as_json: bool,
    corrected: str,
    fix_to: Path | None,
    select_to: Path | None,
    force: bool,
    options: tuple[str, ...],
    data_dir: Path | None,
) -> None:
    """Find and fix errors in a dataset of edits.

    It finds the error types of MQuAKE-Remastered: contaminated cases (facts of unedited and of edited cases that edits
    of other cases change), conflicting edits, missing information in questions, and duplicates.

    \b
    Examples:
      ke audit mquake-cf-3k --data-dir ~/data
      ke audit mquake-cf-3k --num-edited 100 --cases
      ke audit mquake-cf-3k --json > audit.json
      ke audit mquake-cf-3k --fix fixed.jsonl --select together.jsonl
    """  # fmt: skip
    from ke_benchmarks.report import audit_json, audit_report, flagged_cases  # noqa: PLC0415

    chosen_rule = as_rule(rule)
    for path in filter(None, [fix_to, select_to, fix_to and _log_of(fix_to)]):
        if path.exists() and not force:
            raise click.UsageError(f"{path} exists: add --force to replace it")
    source, *others = resolve_datasets(app, (name, *filter(None, [corrected])), options, data_dir)
    dataset = source.build()
    began = time.perf_counter()
    cases = tuple(dataset.cases())
    read = time.perf_counter()
    published = dataset.info().audit
    wanted = num_edited or (tuple(published.on_unedited) if published and seed == published.seed else ())
    audit = Audit.of(name, cases, edited=wanted, seed=seed, rule=chosen_rule)
    agreed = agreement(cases, audit.missing, others[0].build().cases()) if others else None
    done = time.perf_counter()
    if as_json:
        shared.print_json(audit_json(name, audit, published, agreed))
    else:
        out().print(audit_report(name, audit, published, agreed), soft_wrap=True)
        for line in flagged_cases(audit) if with_cases else ():
            out().print(line, soft_wrap=True)
    err().print(f"read in {duration(read - began)}, audited in {duration(done - read)}")
    if fix_to is not None:
        _fix(source, cases, fix_to)
    if select_to is not None:
        _select(source, cases, select_to)


def _fix(source: ResolvedComponent[Any], cases: Sequence[Case], to: Path) -> None:
    from ke_benchmarks.report import fix_report  # noqa: PLC0415

    found = fix(cases)
    log = _log_of(to)
    _write_cases(source, found.cases, to, "fixed")
    lines = (json.dumps(to_json(change), ensure_ascii=False) + "\n" for change in found.changes)
    write_atomic(log, "".join(lines).encode())
    for line in fix_report(found):
        err().print(line, soft_wrap=True)
    err().print(f"{to}: {len(found.cases)} cases; {log}: every change", markup=False, soft_wrap=True)


def _select(source: ResolvedComponent[Any], cases: Sequence[Case], to: Path) -> None:
    from ke_benchmarks.report import selection_report  # noqa: PLC0415

    began = time.perf_counter()
    found = select(cases)
    seconds = time.perf_counter() - began
    _write_cases(source, found.cases, to, "selected")
    err().print(selection_report(found, len(cases)), soft_wrap=True)
    err().print(f"{to}: selected in {duration(seconds)}", markup=False, soft_wrap=True)


def _write_cases(source: ResolvedComponent[Any], cases: Sequence[Case], to: Path, how: str) -> None:
    export(source.build(), source.spec.for_config(source.config), cases, to, how=how)


def _log_of(to: Path) -> Path:
    return to.with_name(f"{to.stem}.changes.jsonl")
