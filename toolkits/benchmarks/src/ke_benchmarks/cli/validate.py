"""``ke datasets validate``: check the cases of a dataset or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from attrs import frozen
from rich.console import Group, RenderableType
from rich.text import Text

from ke_benchmarks.cli.datasets import resolve_dataset
from ke_benchmarks.files.cases import scan_cases
from ke_benchmarks.soundness import Problem, Soundness
from ke_core.app import DONE, FAILED, App, count_noun, literal, out, plain_table
from ke_core.app import options as shared
from ke_core.plugin import BadData, Case, Dataset, to_json


@frozen(kw_only=True)
class Validated:
    """Number of cases that were read, and their problems."""

    cases: int
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        """The number of problems that are errors."""
        return sum(problem.level == "error" for problem in self.problems)


def check_cases(found: Iterable[Case | BadData], *, known_flaws: frozenset[str] = frozenset()) -> Validated:
    """Check every case. An unreadable case is an error too. ``known_flaws``: as in ``DatasetInfo``."""
    check, unread, number = Soundness(known_flaws=known_flaws), list[Problem](), 0
    for one in found:
        if isinstance(one, BadData):
            unread.append(Problem(level="error", rule="record", what=str(one)))
        else:
            number += 1
            check.add(one)
    return Validated(cases=number, problems=(*unread, *check.problems()))


def readable(dataset: Dataset) -> Iterator[Case | BadData]:
    """Yield every case up to the first unreadable one, then its error. Raises BadData if there is no readable case."""
    some = False
    try:
        for case in dataset.cases():
            some = True
            yield case
    except BadData as wrong:
        if not some:
            raise
        yield wrong


ROWS = 60
"""Maximum rows of the table of problems."""


NAMED = 4
"""Maximum cases named in a row."""


def validation_report(name: str, found: Validated) -> Group:
    """Print the table of problems, and a summary line."""
    warnings = len(found.problems) - found.errors
    cases = count_noun(found.cases, "case")
    if not found.problems:
        return Group(literal(f"{name}: {cases}, no problems", "bold"))
    table = plain_table("", "rule", "problem", "cases", "which")
    table.columns[3].justify = "right"
    for problem in found.problems[:ROWS]:
        style = "red" if problem.level == "error" else "yellow"
        number = f"{len(problem.cases):,}" if problem.cases else ""
        row = (literal(problem.level, style), problem.rule, problem.what, number, _which(problem))
        table.add_row(*(cell if isinstance(cell, Text) else literal(cell) for cell in row))
    shown: list[RenderableType] = [table]
    if len(found.problems) > ROWS:
        shown.append(literal(f"and {len(found.problems) - ROWS:,} more: use --json to list all"))
    ends = (count_noun(found.errors, "error"), count_noun(warnings, "warning"))
    shown.append(literal(f"{name}: {cases}, {', '.join(ends)}", "bold"))
    return Group(*shown)


def _which(problem: Problem) -> str:
    more = len(problem.cases) - NAMED
    return ", ".join(problem.cases[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


@click.command("validate")
@click.argument("name", metavar="NAME|FILE")
@shared.json_option
@shared.component_options
@shared.data_dir
@click.pass_obj
def command(app: App, name: str, *, as_json: bool, options: tuple[str, ...], data_dir: Path | None) -> int:
    """Check the cases of a dataset or a file.

    FILE has the format of `ke datasets export`. Errors: unreadable records, duplicate ids, questions without a correct
    answer, bare ids instead of labels, broken or circular chains, edits that change nothing or whose cloze is about
    something else. Warnings: aliases that are labels of other entities, edits that no question tests. Known flaws of
    published datasets are warnings too. The exit status is 1 if there are errors.

    \b
    Examples:
      ke datasets validate mquake-cf-3k --data-dir ~/data
      ke datasets validate atlas.jsonl --json
    """
    cases, known_flaws = _cases(app, name, options, data_dir)
    found = check_cases(cases, known_flaws=known_flaws)
    if as_json:
        shared.print_json({"name": name, "cases": found.cases, "problems": to_json(found.problems)})
    else:
        out().print(validation_report(name, found))
    return FAILED if found.errors else DONE


def _cases(
    app: App, name: str, options: tuple[str, ...], data_dir: Path | None
) -> tuple[Iterable[Case | BadData], frozenset[str]]:
    """Return the cases and known flaws of the dataset of that name, otherwise the cases of the file."""
    if name in app.catalog.names("dataset") or not (Path(name).is_file() or Path(name).suffix):
        dataset: Dataset = resolve_dataset(app, name, options, data_dir).build()
        return readable(dataset), dataset.info().known_flaws
    if options or data_dir:
        raise click.UsageError(f"{name} is a file: -o and --data-dir cannot be used")
    return scan_cases(Path(name)), frozenset()
